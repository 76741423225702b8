/** Drawing of the node map on a canvas. */

import type { NodeColumns } from "../live/delta";
import { drainState } from "../cluster";
import { percent } from "../format";
import { heat, textOnHeat } from "../heat";
import { themeColor } from "../theme";
import type { MapLayout, Tile } from "./map_layout";

/** Load from which a node is marked, if nothing else is known about its limits. */
export const HOT = 0.9;

/** Reason of a mark: the load of the node, or another exception about it. */
export type Marking = "hot" | "exception";

export type Measure = "highest" | "cpu" | "memory";

export interface Arrow {
  source: number;
  target: number;
}

export interface MapContent {
  nodes: NodeColumns;
  guestCounts: ArrayLike<number>;
  layout: MapLayout;
  measure: Measure;
  dark: boolean;
  marked: ReadonlyMap<number, Marking>;
  matches: ReadonlySet<number> | null;
  selected: number | null;
  arrows: readonly Arrow[];
}

/** Return the load that a node is colored by; null if it is unknown. */
export function loadOf(nodes: NodeColumns, node: number, measure: Measure): number | null {
  const cpu = nodes.cpu[node] ?? null;
  const memory = nodes.memory[node] ?? null;
  if (measure === "cpu") return cpu;
  if (measure === "memory") return memory;
  if (cpu === null) return memory;
  return memory === null ? cpu : Math.max(cpu, memory);
}

interface Palette {
  text: string;
  muted: string;
  surface: string;
  line: string;
  edge: string;
  accent: string;
  error: string;
  bar: string;
  memory: string;
  track: string;
  drained: string;
}

function palette(): Palette {
  return {
    text: themeColor("text"),
    muted: themeColor("muted"),
    surface: themeColor("raised"),
    line: themeColor("line"),
    edge: themeColor("edge"),
    accent: themeColor("accent"),
    error: themeColor("error"),
    bar: themeColor("bar"),
    memory: themeColor("bar-memory"),
    track: themeColor("bar-track"),
    drained: themeColor("drained"),
  };
}

const FONT = "-apple-system, 'Segoe UI', Roboto, Cantarell, 'Liberation Sans', Arial, sans-serif";

export function drawMap(canvas: HTMLCanvasElement, content: MapContent): void {
  const { layout } = content;
  const scale = window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(layout.width * scale));
  const height = Math.max(1, Math.round(layout.height * scale));
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  if (context === null) return;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, layout.width, layout.height);
  const colors = palette();
  context.textBaseline = "middle";
  drawLabels(context, layout, colors);
  for (const tile of layout.tiles) {
    context.globalAlpha = content.matches === null || content.matches.has(tile.node) ? 1 : 0.18;
    if (layout.density === "squares") drawSquare(context, content, tile, colors);
    else drawTile(context, content, tile, colors);
  }
  context.globalAlpha = 1;
  drawArrows(context, content, colors);
}

function drawLabels(context: CanvasRenderingContext2D, layout: MapLayout, colors: Palette): void {
  context.font = `600 11px ${FONT}`;
  context.fillStyle = colors.muted;
  for (const label of layout.labels) {
    context.fillText(fitted(context, label.text, label.width), label.x, label.y + 8);
  }
}

/** Return *text*, shortened in its middle until it fits into *width*. */
function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  for (let kept = text.length - 1; kept > 1; kept -= 1) {
    const head = Math.ceil(kept / 3);
    const short = `${text.slice(0, head)}…${text.slice(text.length - (kept - head))}`;
    if (context.measureText(short).width <= width) return short;
  }
  return "";
}

function outline(
  context: CanvasRenderingContext2D,
  content: MapContent,
  tile: Tile,
  colors: Palette,
): void {
  const selected = content.selected === tile.node;
  const marked = content.marked.has(tile.node);
  const { tileWidth, tileHeight } = content.layout;
  if (!selected && !marked) return;
  context.strokeStyle = selected ? colors.accent : colors.error;
  context.lineWidth = 2;
  context.strokeRect(tile.x + 1, tile.y + 1, tileWidth - 2, tileHeight - 2);
}

/** Return the color of a node without a color of its load: drained, or not online. */
function closedColor(content: MapContent, node: number, colors: Palette): string {
  return content.nodes.drained[node] ? colors.drained : colors.edge;
}

function drawSquare(context: CanvasRenderingContext2D, content: MapContent, tile: Tile, colors: Palette): void {
  const { tileWidth: size } = content.layout;
  const load = loadOf(content.nodes, tile.node, content.measure);
  const drained = content.nodes.drained[tile.node] === true;
  const online = content.nodes.state[tile.node] === "online" && !drained;
  context.fillStyle = load === null || !online ? colors.surface : heat(load, content.dark);
  context.fillRect(tile.x, tile.y, size, size);
  const sign = content.marked.has(tile.node) ? "!" : drained ? "d" : !online ? "×" : load === null ? "?" : "";
  if (load === null || !online) {
    const width = drained ? 3 : 1;
    context.strokeStyle = closedColor(content, tile.node, colors);
    context.lineWidth = width;
    context.strokeRect(tile.x + width / 2, tile.y + width / 2, size - width, size - width);
  }
  outline(context, content, tile, colors);
  if (sign === "") return;
  context.font = `700 12px ${FONT}`;
  context.textAlign = "center";
  context.fillStyle = load === null || !online ? colors.text : textOnHeat(load, content.dark);
  context.fillText(sign, tile.x + size / 2, tile.y + size / 2 + 1);
  context.textAlign = "left";
}

function drawTile(context: CanvasRenderingContext2D, content: MapContent, tile: Tile, colors: Palette): void {
  const { nodes, layout } = content;
  const { tileWidth: width, tileHeight: height } = layout;
  const named = layout.density === "named";
  const load = loadOf(nodes, tile.node, content.measure);
  const state = nodes.state[tile.node] ?? "";
  context.fillStyle = colors.surface;
  context.fillRect(tile.x, tile.y, width, height);
  const closed = load === null || state !== "online" || nodes.drained[tile.node] === true;
  context.fillStyle = closed ? closedColor(content, tile.node, colors) : heat(load, content.dark);
  context.fillRect(tile.x, tile.y, named ? 5 : 4, height);
  outline(context, content, tile, colors);
  const left = tile.x + (named ? 12 : 8);
  const right = tile.x + width - (named ? 8 : 5);
  context.font = `600 ${named ? 12 : 10.5}px ${FONT}`;
  context.fillStyle = colors.text;
  const mark = markOf(content, tile.node, state);
  const room = right - left - (mark === "" ? 0 : context.measureText(mark).width + 6);
  const nameY = tile.y + (named ? 13 : 10);
  context.fillText(fitted(context, nodes.id[tile.node] ?? "", room), left, nameY);
  if (mark !== "") {
    context.fillStyle = mark.startsWith("!") ? colors.error : colors.muted;
    context.textAlign = "right";
    context.fillText(mark, right, nameY);
    context.textAlign = "left";
  }
  const bars: [number | null, string, string][] = [
    [nodes.cpu[tile.node] ?? null, colors.bar, "CPU"],
    [nodes.memory[tile.node] ?? null, colors.memory, "Mem"],
  ];
  bars.forEach(([value, color, name], index) => {
    if (named) drawNamedBar(context, value, color, name, left, right, tile.y + 30 + 16 * index, colors);
    else drawThinBar(context, value, color, left, right, tile.y + 19 + 7 * index, colors);
  });
}

const ROLE_SIGNS: Record<string, string> = { source: "→", target: "←", both: "↔" };

function markOf(content: MapContent, node: number, state: string): string {
  const narrow = content.layout.density === "tiles";
  const marking = content.marked.get(node);
  if (marking !== undefined) return narrow || marking !== "hot" ? "!" : "! hot";
  const drain = drainState(content.nodes, node, content.guestCounts[node] ?? 0);
  if (drain !== "") return narrow ? "d" : drain;
  if (state !== "online") return narrow ? "×" : state;
  const role = content.nodes.role[node];
  if (role === undefined || role === "neutral") return "";
  return narrow ? (ROLE_SIGNS[role] ?? "") : role;
}

function drawNamedBar(
  context: CanvasRenderingContext2D,
  value: number | null,
  color: string,
  name: string,
  left: number,
  right: number,
  y: number,
  colors: Palette,
): void {
  context.font = `11px ${FONT}`;
  context.fillStyle = colors.muted;
  context.fillText(name, left, y);
  context.fillStyle = colors.text;
  context.textAlign = "right";
  context.fillText(percent(value), right, y);
  context.textAlign = "left";
  drawThinBar(context, value, color, left + 30, right - 36, y - 3, colors);
}

function drawThinBar(
  context: CanvasRenderingContext2D,
  value: number | null,
  color: string,
  left: number,
  right: number,
  y: number,
  colors: Palette,
): void {
  const width = right - left;
  context.fillStyle = colors.track;
  context.fillRect(left, y, width, 5);
  if (value === null) return;
  context.fillStyle = color;
  context.fillRect(left, y, width * Math.min(1, Math.max(0, value)), 5);
}

function drawArrows(context: CanvasRenderingContext2D, content: MapContent, colors: Palette): void {
  const { layout } = content;
  const centers = new Map(
    layout.tiles.map((tile) => [
      tile.node,
      { x: tile.x + layout.tileWidth / 2, y: tile.y + layout.tileHeight / 2 },
    ]),
  );
  context.strokeStyle = colors.accent;
  context.fillStyle = colors.accent;
  context.lineWidth = 2.5;
  for (const arrow of content.arrows) {
    const from = centers.get(arrow.source);
    const to = centers.get(arrow.target);
    if (from && to) drawArrow(context, from, to);
  }
}

interface Point {
  x: number;
  y: number;
}

function drawArrow(context: CanvasRenderingContext2D, from: Point, to: Point): void {
  const bend = { x: (from.x + to.x) / 2 + (to.y - from.y) * 0.15, y: (from.y + to.y) / 2 - (to.x - from.x) * 0.15 };
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.quadraticCurveTo(bend.x, bend.y, to.x, to.y);
  context.stroke();
  const angle = Math.atan2(to.y - bend.y, to.x - bend.x);
  context.beginPath();
  context.moveTo(to.x, to.y);
  context.lineTo(to.x - 11 * Math.cos(angle - 0.4), to.y - 11 * Math.sin(angle - 0.4));
  context.lineTo(to.x - 11 * Math.cos(angle + 0.4), to.y - 11 * Math.sin(angle + 0.4));
  context.fill();
  context.beginPath();
  context.arc(from.x, from.y, 4, 0, 2 * Math.PI);
  context.fill();
}
