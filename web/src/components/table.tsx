/** Virtual table: of any number of rows, only those on the screen are in the document. */

import type { ComponentChildren, JSX, TargetedEvent } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count } from "../format";
import { route, setParameter } from "../router";
import { isPhone } from "../screen";
import { Empty } from "./parts";

export interface Column {
  key: string;
  title: string;
  /** Track of the grid, such as `8rem` or `minmax(8rem, 1fr)`. */
  track: string;
  numeric?: boolean;
  /** Left out on a phone. */
  wide?: boolean;
  /** Value to sort by; unknown values (null) come last. */
  value?: (row: number) => string | number | null;
  cell: (row: number) => ComponentChildren;
}

const ROW = 30;
const MARGIN = 8;
const collator = new Intl.Collator("en", { numeric: true });

type Order = { key: string; descending: boolean };

function orderOf(text: string): Order {
  return text.startsWith("-") ? { key: text.slice(1), descending: true } : { key: text, descending: false };
}

/** Return *rows* in the order of a column; rows with equal values keep their order. */
export function sortRows(rows: Uint32Array, column: Column | undefined, descending: boolean): Uint32Array {
  const valueOf = column?.value;
  if (valueOf === undefined) return rows;
  const values = new Map<number, string | number | null>();
  for (const row of rows) values.set(row, valueOf(row));
  const sign = descending ? -1 : 1;
  return rows.slice().sort((a, b) => {
    const first = values.get(a) ?? null;
    const second = values.get(b) ?? null;
    if (first === second) return a - b;
    if (first === null) return 1;
    if (second === null) return -1;
    if (typeof first === "number" && typeof second === "number") return sign * (first - second) || a - b;
    return sign * collator.compare(String(first), String(second)) || a - b;
  });
}

export function rowsWhere(length: number, test: (row: number) => boolean): Uint32Array {
  const found = new Uint32Array(length);
  let size = 0;
  for (let row = 0; row < length; row += 1) if (test(row)) found[size++] = row;
  return found.subarray(0, size);
}

export function VirtualTable(props: {
  label: string;
  noun: string;
  columns: readonly Column[];
  rows: Uint32Array;
  initial?: string;
  /** Parameter of the address that keeps the order. */
  parameter?: string;
  /** Rows that are shown at most before the table scrolls; without it, the page scrolls. */
  most?: number;
  empty?: ComponentChildren;
}): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const inPage = props.most === undefined;
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(inPage ? window.innerHeight : 600);
  const parameter = props.parameter ?? "sort";
  const order = orderOf(route.value.query.get(parameter) ?? props.initial ?? "");
  const columns = isPhone.value ? props.columns.filter((each) => !each.wide) : props.columns;
  const sorted = useMemo(
    () => sortRows(props.rows, props.columns.find((each) => each.key === order.key), order.descending),
    [props.rows, props.columns, order.key, order.descending],
  );
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    if (inPage) return followWindow(element, setTop, setHeight);
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, [sorted.length === 0, inPage]);
  if (sorted.length === 0) return <Empty>{props.empty ?? `No ${props.noun}s.`}</Empty>;
  const first = Math.max(0, Math.floor(top / ROW) - MARGIN);
  const last = Math.min(sorted.length, Math.ceil((top + height) / ROW) + MARGIN);
  const template = { gridTemplateColumns: columns.map((each) => each.track).join(" ") };
  const sortBy = (column: Column): void => {
    const descending = order.key === column.key ? !order.descending : column.numeric === true;
    setParameter(parameter, `${descending ? "-" : ""}${column.key}`);
    showBegin(scroller.current);
  };
  const onKeyDown = (event: KeyboardEvent): void => moveFocus(event, scroller.current);
  return (
    <div
      ref={scroller}
      class={inPage ? "table table-page" : "table"}
      role="table"
      {...(inPage ? {} : { tabIndex: 0 })}
      aria-label={`${props.label}: ${count(sorted.length, props.noun)}`}
      aria-rowcount={sorted.length + 1}
      {...(inPage ? {} : { onScroll: (event: TargetedEvent<HTMLDivElement>) => setTop(event.currentTarget.scrollTop) })}
      onKeyDown={onKeyDown}
      {...(props.most === undefined ? {} : { style: { maxHeight: `${(props.most + 1) * ROW + 2}px` } })}
    >
      <div role="rowgroup" class="table-head">
        <div role="row" class="table-row" aria-rowindex={1} style={template}>
          {columns.map((column) => (
            <Header key={column.key} column={column} order={order} onSort={sortBy} />
          ))}
        </div>
      </div>
      <div role="rowgroup" class="table-body" style={{ height: `${sorted.length * ROW}px` }}>
        {Array.from(sorted.subarray(first, last), (row, offset) => (
          <div
            key={row}
            role="row"
            class="table-row"
            aria-rowindex={first + offset + 2}
            style={{ ...template, top: `${(first + offset) * ROW}px` }}
          >
            {columns.map((column) => (
              <div key={column.key} role="cell" class={column.numeric ? "cell numeric" : "cell"}>
                {column.cell(row)}
              </div>
            ))}
          </div>
        ))}
      </div>
    </div>
  );
}

/** Follow which part of the table is on the screen; return a function that ends it. */
function followWindow(table: HTMLElement, setTop: (top: number) => void, setHeight: (height: number) => void): () => void {
  const update = (): void => {
    setTop(Math.max(0, -table.getBoundingClientRect().top));
    setHeight(window.innerHeight);
  };
  update();
  window.addEventListener("scroll", update, { passive: true });
  window.addEventListener("resize", update);
  return () => {
    window.removeEventListener("scroll", update);
    window.removeEventListener("resize", update);
  };
}

/** Scroll to the first row, if it is above the screen. */
function showBegin(table: HTMLElement | null): void {
  if (table === null) return;
  table.scrollTop = 0;
  const { top } = table.getBoundingClientRect();
  if (top < 0) window.scrollBy(0, top);
}

function Header(props: { column: Column; order: Order; onSort: (column: Column) => void }): JSX.Element {
  const { column, order } = props;
  const sorted = order.key === column.key ? (order.descending ? "descending" : "ascending") : "none";
  const name = column.numeric ? "cell numeric" : "cell";
  if (column.value === undefined) {
    return (
      <div role="columnheader" class={name}>
        {column.title}
      </div>
    );
  }
  return (
    <div role="columnheader" class={name} aria-sort={sorted}>
      <button type="button" onClick={() => props.onSort(column)}>
        {column.title}
        <span aria-hidden="true">{sorted === "none" ? "" : sorted === "ascending" ? " ↑" : " ↓"}</span>
      </button>
    </div>
  );
}

/** Move the focus to the link of the row above or below. */
function moveFocus(event: KeyboardEvent, scroller: HTMLDivElement | null): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const row = event.target instanceof Element ? event.target.closest<HTMLElement>(".table-body .table-row") : null;
  if (step === 0 || row === null || scroller === null) return;
  const index = Number(row.getAttribute("aria-rowindex")) + step;
  const next = scroller.querySelector<HTMLElement>(`[aria-rowindex="${index}"] a`);
  if (next === null) return;
  event.preventDefault();
  next.focus({ preventScroll: true });
  if (scroller.classList.contains("table-page")) {
    next.closest(".table-row")?.scrollIntoView({ block: "nearest" });
    return;
  }
  const top = (index - 2) * ROW;
  const visible = scroller.clientHeight - ROW;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top + ROW > scroller.scrollTop + visible) scroller.scrollTop = top + ROW - visible;
}
