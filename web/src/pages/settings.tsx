/** Settings, read only: each with its file and line. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { get } from "../api/client";
import type { Setting, SettingList } from "../api/types";
import { Badge, Heading, Pending, Search } from "../components/parts";
import { rowsWhere, VirtualTable, type Column } from "../components/table";
import { count, UNKNOWN } from "../format";
import { useDocument } from "../live/loader";
import { route, setParameter } from "../router";

function settingColumns(settings: readonly Setting[]): Column[] {
  return [
    { key: "path", title: "Setting", track: "minmax(12rem, 2fr)", value: (row) => settings[row]?.path ?? "", cell: (row) => <span title={settings[row]?.path}>{settings[row]?.path}</span> },
    { key: "value", title: "Value", track: "minmax(9rem, 2fr)", value: (row) => settingText(settings[row]?.value), cell: (row) => <span title={settingText(settings[row]?.value)}>{settingText(settings[row]?.value)}</span> },
    { key: "source", title: "Source", track: "minmax(9rem, 2fr)", wide: true, value: (row) => place(settings[row]), cell: (row) => (settings[row]?.default ? <Badge>default</Badge> : place(settings[row])) },
  ];
}

function settingText(value: unknown): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "string") return value;
  return Array.isArray(value) ? value.map(settingText).join(", ") || "none" : JSON.stringify(value);
}

function place(setting: Setting | undefined): string {
  if (!setting?.file) return "";
  return setting.line === null ? setting.file : `${setting.file}:${setting.line}`;
}

export function SettingsPage(): JSX.Element {
  const found = useDocument<SettingList>("settings", (abort) => get("/settings", abort));
  const searched = (route.value.query.get("q") ?? "").toLowerCase();
  const settings = found.value?.settings;
  const columns = useMemo(() => settingColumns(settings ?? []), [settings]);
  const rows = useMemo(() => rowsWhere(settings?.length ?? 0, (row) => (settings?.[row]?.path ?? "").toLowerCase().includes(searched)), [settings, searched]);
  return (
    <>
      <Heading title="Settings" text={`Read only; change the file and reload the controller. ${settings ? count(rows.length, "setting") : ""}`}>
        <Search label="Find a setting" value={route.value.query.get("q") ?? ""} onChange={(value) => setParameter("q", value)} />
      </Heading>
      {settings === undefined ? (
        <Pending error={found.error} reload={found.reload} what="settings" />
      ) : (
        <VirtualTable label="Settings" noun="setting" columns={columns} rows={rows} initial="path" />
      )}
    </>
  );
}
