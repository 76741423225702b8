// Builds the dashboard into src/opendrs/web, or into the folder given as argument.
// The result depends on the sources and on package-lock.json only.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(fileURLToPath(import.meta.url));
const output = resolve(process.argv[2] ?? join(root, "../src/opendrs/web"));
const shipped = ["preact", "@preact/signals", "@preact/signals-core", "uplot"];

async function licenses() {
  const texts = await Promise.all(
    shipped.map(async (name) => {
      const folder = join(root, "node_modules", name);
      const { version } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
      const text = await readFile(join(folder, "LICENSE"), "utf8");
      return `${name} ${version}\n\n${text.trim()}\n`;
    }),
  );
  return texts.join(`\n${"-".repeat(72)}\n\n`);
}

await rm(output, { recursive: true, force: true });
await mkdir(output, { recursive: true });
await build({
  absWorkingDir: root,
  entryPoints: { app: "src/main.tsx" },
  outdir: output,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});
await copyFile(join(root, "src/index.html"), join(output, "index.html"));
await copyFile(join(root, "src/icon.svg"), join(output, "icon.svg"));
await writeFile(join(output, "licenses.txt"), await licenses());
