/** Map of all nodes: a canvas, a keyboard grid of the same tiles, and a table twin. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Exception } from "../api/types";
import { drainDetail, drainState } from "../cluster";
import { count, percent } from "../format";
import { heat, LEGEND_STEPS } from "../heat";
import { href, navigate } from "../router";
import type { NodeColumns } from "../live/delta";
import { isDark } from "../theme";
import { drawMap, HOT, loadOf, type Arrow, type Marking, type Measure } from "./map_drawing";
import { layoutMap, neighbor, tileAt, type MapLayout } from "./map_layout";
import { NodeTable } from "./node_table";
import { Choice, Search } from "./parts";

/** Name of the last measured drawing, for benchmarks. */
const DRAWING = "map-drawing";
const LISTED = 6;
const OVER_LIMIT: ReadonlySet<string> = new Set(["node-cpu-high", "node-memory-high"]);

type Marked = ReadonlyMap<number, Marking>;

/** Return the nodes to mark: those over limits, and those with another exception. */
export function markedNodes(nodes: NodeColumns, exceptions: readonly Exception[]): Marked {
  const over = new Set(exceptions.filter((each) => OVER_LIMIT.has(each.code)).map((each) => each.subject));
  const named = new Set(exceptions.filter((each) => each.severity !== "info").map((each) => each.subject));
  const found = new Map<number, Marking>();
  nodes.id.forEach((id, node) => {
    const hot = (loadOf(nodes, node, "highest") ?? 0) >= HOT || over.has(id);
    if (hot) found.set(node, "hot");
    else if (named.has(id)) found.set(node, "exception");
  });
  return found;
}

function describe(props: NodeMapProps, node: number, marking: Marking | undefined): string {
  const { nodes } = props;
  const parts = [
    nodes.id[node] ?? "",
    `CPU ${percent(nodes.cpu[node])}`,
    `memory ${percent(nodes.memory[node])}`,
  ];
  const state = nodes.state[node];
  if (state !== undefined && state !== "online") parts.push(state);
  const drain = drainState(nodes, node, props.guestCounts[node] ?? 0);
  if (drain !== "") parts.push(drain);
  const detail = drainDetail(props.exceptions, nodes.id[node] ?? "");
  if (detail !== null) parts.push(detail);
  if (marking !== undefined) parts.push(marking);
  return parts.join(", ");
}

export interface NodeMapProps {
  nodes: NodeColumns;
  guestCounts: ArrayLike<number>;
  exceptions: readonly Exception[];
  arrows?: readonly Arrow[];
}

export function NodeMap(props: NodeMapProps): JSX.Element {
  const [measure, setMeasure] = useState<Measure>("highest");
  const [form, setForm] = useState<"map" | "table">("map");
  const [searched, setSearched] = useState("");
  const [selected, setSelected] = useState<number | null>(null);
  const marked = useMemo(() => markedNodes(props.nodes, props.exceptions), [props.nodes, props.exceptions]);
  return (
    <div class="node-map">
      <div class="toolbar">
        <Choice
          label="Form"
          value={form}
          onChange={setForm}
          options={[["map", "Map"], ["table", "Table"]]}
        />
        {form === "map" ? (
          <>
            <Choice
              label="Color"
              value={measure}
              onChange={setMeasure}
              options={[["highest", "Highest"], ["cpu", "CPU"], ["memory", "Memory"]]}
            />
            <Search label="Find a node" value={searched} onChange={setSearched} />
            <Legend drained={props.nodes.drained.some(Boolean)} />
          </>
        ) : null}
      </div>
      {form === "map" ? (
        <Canvas
          {...props}
          marked={marked}
          measure={measure}
          searched={searched.trim().toLowerCase()}
          selected={selected}
          onSelect={setSelected}
        />
      ) : (
        <NodeTable nodes={props.nodes} guestCounts={props.guestCounts} most={14} />
      )}
      <HotNodes nodes={props.nodes} marked={marked} />
      {selected !== null && form === "map" ? (
        <Selected nodes={props.nodes} node={selected} guests={props.guestCounts[selected] ?? 0} />
      ) : null}
    </div>
  );
}

function Legend(props: { drained: boolean }): JSX.Element {
  return (
    <div class="legend">
      {LEGEND_STEPS.map((step) => (
        <span key={step}>
          <span class="swatch" style={{ background: heat(step, isDark.value) }} aria-hidden="true" />
          {percent(step)}
        </span>
      ))}
      {props.drained ? (
        <span>
          <span class="swatch swatch-drained" aria-hidden="true" />
          drained
        </span>
      ) : null}
      <span>! at least 90% or over a limit, or an exception</span>
    </div>
  );
}

function HotNodes(props: { nodes: NodeColumns; marked: Marked }): JSX.Element | null {
  const hot = [...props.marked].flatMap(([node, marking]) => (marking === "hot" ? [node] : []));
  if (hot.length === 0) return null;
  const worst = hot.sort(
    (a, b) => (loadOf(props.nodes, b, "highest") ?? 0) - (loadOf(props.nodes, a, "highest") ?? 0),
  );
  return (
    <p class="hot-nodes">
      <strong>! {count(hot.length, "hot node")}: </strong>
      {worst.slice(0, LISTED).map((node, index) => (
        <span key={node}>
          {index > 0 ? ", " : ""}
          <a href={href("nodes", props.nodes.id[node] ?? "")}>{props.nodes.id[node]}</a>{" "}
          {percent(loadOf(props.nodes, node, "highest"))}
        </span>
      ))}
      {worst.length > LISTED ? `, and ${worst.length - LISTED} more` : ""}
    </p>
  );
}

function Selected(props: { nodes: NodeColumns; node: number; guests: number }): JSX.Element {
  const { nodes, node, guests } = props;
  const id = nodes.id[node] ?? "";
  return (
    <p class="selected-node">
      <a href={href("nodes", id)}>
        <strong>{id}</strong>
      </a>
      <span>{nodes.state[node]}</span>
      <span>CPU {percent(nodes.cpu[node])}</span>
      <span>memory {percent(nodes.memory[node])}</span>
      <a href={`${href("guests")}?node=${encodeURIComponent(id)}`}>{count(guests, "guest")}</a>
    </p>
  );
}

interface CanvasProps extends NodeMapProps {
  marked: Marked;
  measure: Measure;
  searched: string;
  selected: number | null;
  onSelect: (node: number | null) => void;
}

function Canvas(props: CanvasProps): JSX.Element {
  const { nodes, guestCounts, marked, measure, searched, selected } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [hovered, setHovered] = useState<{ node: number; x: number; y: number } | null>(null);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    setWidth(element.clientWidth);
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const layout = useMemo(
    () => layoutMap(nodes.group, nodes.id.length, Math.max(160, width)),
    [nodes.id, nodes.group, width],
  );
  const matches = useMemo(() => {
    if (searched === "") return null;
    return new Set(nodes.id.flatMap((id, node) => (id.toLowerCase().includes(searched) ? [node] : [])));
  }, [nodes.id, searched]);
  const dark = isDark.value;
  const arrows = props.arrows ?? [];
  useEffect(() => {
    if (canvas.current === null || width === 0) return undefined;
    const element = canvas.current;
    const frame = requestAnimationFrame(() => {
      const start = performance.now();
      drawMap(element, { nodes, guestCounts, layout, measure, dark, marked, matches, selected, arrows });
      performance.clearMeasures(DRAWING);
      performance.measure(DRAWING, { start });
    });
    return () => cancelAnimationFrame(frame);
  }, [nodes, guestCounts, layout, measure, dark, marked, matches, selected, arrows, width]);
  const at = (event: MouseEvent): number | null =>
    tileAt(layout, event.offsetX, event.offsetY)?.node ?? null;
  return (
    <div
      ref={box}
      class="map-box"
      onMouseMove={(event) => {
        const node = at(event);
        setHovered(node === null ? null : { node, x: event.offsetX, y: event.offsetY });
      }}
      onMouseLeave={() => setHovered(null)}
    >
      <canvas
        ref={canvas}
        aria-hidden="true"
        style={{ width: `${layout.width}px`, height: `${layout.height}px` }}
        onClick={(event) => {
          const node = at(event);
          if (node !== null) navigate(href("nodes", nodes.id[node] ?? ""));
        }}
      />
      {width > 0 && layout.tiles.length > 0 ? (
        <KeyboardGrid {...props} layout={layout} />
      ) : null}
      {hovered !== null ? (
        <div
          class="tooltip"
          aria-hidden="true"
          style={{ left: `${Math.min(hovered.x + 12, Math.max(0, width - 230))}px`, top: `${hovered.y + 16}px` }}
        >
          {describe(props, hovered.node, marked.get(hovered.node))}, {count(guestCounts[hovered.node] ?? 0, "guest")}
        </div>
      ) : null}
    </div>
  );
}

/** The tile that has the focus, as an element over the canvas; arrow keys move it. */
function KeyboardGrid(props: CanvasProps & { layout: MapLayout }): JSX.Element {
  const { nodes, layout, marked } = props;
  const [position, setPosition] = useState(0);
  const moved = useRef(false);
  const cell = useRef<HTMLDivElement>(null);
  const shown = Math.min(position, layout.tiles.length - 1);
  const tile = layout.tiles[shown];
  useLayoutEffect(() => {
    if (moved.current) cell.current?.focus();
    moved.current = false;
  }, [shown]);
  if (tile === undefined) return <></>;
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter") navigate(href("nodes", nodes.id[tile.node] ?? ""));
    else if (event.key === " ") props.onSelect(tile.node);
    else {
      const next = neighbor(layout, shown, event.key);
      if (next === shown) return;
      moved.current = true;
      setPosition(next);
    }
    event.preventDefault();
  };
  return (
    <div
      role="grid"
      aria-label={`Map of ${count(nodes.id.length, "node")}. Arrow keys move, Enter opens, Space selects.`}
      aria-rowcount={1}
      aria-colcount={layout.tiles.length}
    >
      <div role="row">
        <div
          ref={cell}
          key={tile.node}
          class="map-focus"
          role="gridcell"
          tabIndex={0}
          aria-colindex={shown + 1}
          aria-label={describe(props, tile.node, marked.get(tile.node))}
          onKeyDown={onKeyDown}
          style={{
            left: `${tile.x - 2}px`,
            top: `${tile.y - 2}px`,
            width: `${layout.tileWidth + 4}px`,
            height: `${layout.tileHeight + 4}px`,
          }}
        />
      </div>
    </div>
  );
}
