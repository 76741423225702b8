/** Layout of the node map: tiles with names for few nodes, squares in groups for many. */

export type Density = "named" | "tiles" | "squares";

export interface Tile {
  node: number;
  x: number;
  y: number;
}

export interface GroupLabel {
  text: string;
  x: number;
  y: number;
  width: number;
}

export interface MapLayout {
  density: Density;
  tileWidth: number;
  tileHeight: number;
  tiles: readonly Tile[];
  labels: readonly GroupLabel[];
  width: number;
  height: number;
}

const NAMED = 60;
const TILES = 300;
const GAP = 4;
const LABEL = 18;
const SIZES: Record<Density, { width: number; height: number; gap: number }> = {
  named: { width: 118, height: 58, gap: 6 },
  tiles: { width: 74, height: 34, gap: 4 },
  squares: { width: 15, height: 15, gap: 3 },
};

export function densityOf(nodes: number): Density {
  if (nodes <= NAMED) return "named";
  return nodes <= TILES ? "tiles" : "squares";
}

/** Return the rows of each group, in the order of their names; one group if none is known. */
function grouped(groups: readonly (string | null)[], length: number): [string, number[]][] {
  const found = new Map<string, number[]>();
  for (let node = 0; node < length; node += 1) {
    const name = groups[node] ?? "";
    const members = found.get(name);
    if (members) members.push(node);
    else found.set(name, [node]);
  }
  const collator = new Intl.Collator("en", { numeric: true });
  return [...found].sort(([a], [b]) => collator.compare(a, b));
}

/** Return the place of each node on a map of *width* pixels. */
export function layoutMap(groups: readonly (string | null)[], length: number, width: number): MapLayout {
  const density = densityOf(length);
  const blocks = grouped(groups, length);
  const labelled = blocks.length > 1;
  const size = SIZES[density];
  const fitting = Math.max(1, Math.floor((width + size.gap) / (size.width + size.gap)));
  const tileWidth = density === "squares" ? size.width : (width - (fitting - 1) * size.gap) / fitting;
  const tiles: Tile[] = [];
  const labels: GroupLabel[] = [];
  let x = 0;
  let y = 0;
  let rowHeight = 0;
  for (const [name, members] of blocks) {
    const columns = labelled && density === "squares" ? squareColumns(members.length, fitting) : fitting;
    const rows = Math.ceil(members.length / columns);
    const blockWidth = columns * (tileWidth + size.gap) - size.gap;
    const blockHeight = rows * (size.height + size.gap) - size.gap + (labelled ? LABEL : 0);
    if (x > 0 && x + blockWidth > width) {
      x = 0;
      y += rowHeight + 3 * GAP;
      rowHeight = 0;
    }
    const top = labelled ? y + LABEL : y;
    if (labelled) labels.push({ text: name || "no group", x, y, width: blockWidth });
    members.forEach((node, index) => {
      tiles.push({
        node,
        x: x + (index % columns) * (tileWidth + size.gap),
        y: top + Math.floor(index / columns) * (size.height + size.gap),
      });
    });
    rowHeight = Math.max(rowHeight, blockHeight);
    x += blockWidth + 4 * GAP;
  }
  return { density, tileWidth, tileHeight: size.height, tiles, labels, width, height: y + rowHeight };
}

function squareColumns(members: number, fitting: number): number {
  return Math.min(fitting, Math.max(5, Math.ceil(Math.sqrt(members * 1.8))));
}

/** Return the tile at a point, or null. */
export function tileAt(layout: MapLayout, x: number, y: number): Tile | null {
  return (
    layout.tiles.find(
      (tile) => x >= tile.x && x < tile.x + layout.tileWidth && y >= tile.y && y < tile.y + layout.tileHeight,
    ) ?? null
  );
}

/** Return the position in `tiles` that an arrow key leads to from *position*. */
export function neighbor(layout: MapLayout, position: number, key: string): number {
  const last = layout.tiles.length - 1;
  switch (key) {
    case "ArrowLeft":
      return Math.max(0, position - 1);
    case "ArrowRight":
      return Math.min(last, position + 1);
    case "Home":
      return 0;
    case "End":
      return last;
    case "ArrowUp":
      return vertical(layout, position, -1);
    case "ArrowDown":
      return vertical(layout, position, 1);
    default:
      return position;
  }
}

function vertical(layout: MapLayout, position: number, direction: 1 | -1): number {
  const from = layout.tiles[position];
  if (from === undefined) return position;
  let best = position;
  let least = Infinity;
  layout.tiles.forEach((tile, index) => {
    const down = direction * (tile.y - from.y);
    if (down <= 0) return;
    const distance = down + 3 * Math.abs(tile.x - from.x);
    if (distance < least) {
      least = distance;
      best = index;
    }
  });
  return best;
}
