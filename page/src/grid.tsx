/**
 * A list of any length, with rows of one height. Only the visible rows are in the document. It is one Tab stop: the arrows
 * move the active row, which the focused list names to screen readers.
 */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { h, type Child } from "./jsx";

const ROW = 52;
const AROUND = 6;
/** Browsers limit the height of an element to about 17 million pixels; a longer list scrolls in proportion. */
const MAX_HEIGHT = 8_000_000;

export interface Column {
  title: string;
  /** A class of the style sheet that sets width and alignment. */
  kind: string;
}

interface Properties {
  label: string;
  columns: Column[];
  total: number;
  /** The cells of a row; undefined while it is loaded. */
  cells: (index: number) => Child[] | undefined;
  /** Called with the visible rows, whenever they change. */
  onVisible: (first: number, last: number) => void;
  /** Called when the active row changes by a key. */
  onMove?: (index: number) => unknown;
  onOpen: (index: number) => void;
  /** Whether a row is the one that is open beside the list. */
  isOpen?: (index: number) => boolean;
  /** A row that was chosen outside of the list: it becomes the active one, and is scrolled into view. */
  current?: number | undefined;
  id: string;
}

export function Grid({ label, columns, total, cells, onVisible, onMove, onOpen, isOpen, current, id }: Properties) {
  const scroller = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(0);
  const [active, setActive] = useState(0);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const measure = (): void => setHeight(element.clientHeight);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const shownHeight = Math.max(height - HEAD, ROW);
  const whole = total * ROW;
  const drawn = Math.min(whole, MAX_HEIGHT);
  const scale = whole > MAX_HEIGHT ? (whole - shownHeight) / (drawn - shownHeight) : 1;
  const offset = top * scale;
  const first = Math.max(Math.floor(offset / ROW) - AROUND, 0);
  const last = Math.min(Math.ceil((offset + shownHeight) / ROW) + AROUND, total) - 1;
  const chosen = Math.min(active, Math.max(total - 1, 0));

  useEffect(() => {
    if (last >= first) onVisible(first, last);
  }, [first, last, total]);

  function reveal(index: number): void {
    const element = scroller.current;
    if (!element) return;
    const at = index * ROW;
    const before = element.scrollTop * scale;
    if (at < before) element.scrollTop = at / scale;
    else if (at + ROW > before + shownHeight) element.scrollTop = (at + ROW - shownHeight) / scale;
    setTop(element.scrollTop);
  }

  // Not after the next frame: a key that is pressed before it would move from the row before.
  useLayoutEffect(() => {
    if (current === undefined || height === 0 || current >= total) return;
    setActive(current);
    reveal(current);
  }, [current, height === 0]);

  function move(index: number): void {
    const next = Math.min(Math.max(index, 0), total - 1);
    setActive(next);
    reveal(next);
    onMove?.(next);
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.target !== scroller.current || event.altKey || event.ctrlKey || event.metaKey || total === 0) return;
    const page = Math.max(Math.floor(shownHeight / ROW) - 1, 1);
    const steps: Record<string, () => void> = {
      ArrowDown: () => move(chosen + 1),
      ArrowUp: () => move(chosen - 1),
      PageDown: () => move(chosen + page),
      PageUp: () => move(chosen - page),
      Home: () => move(0),
      End: () => move(total - 1),
      Enter: () => onOpen(chosen),
    };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    step();
  }

  const rows: Child[] = [];
  for (let index = first; index <= last; index += 1) {
    const content = cells(index);
    const open = isOpen?.(index) ?? false;
    rows.push(
      <div
        key={index}
        id={`${id}-${index}`}
        role="row"
        class={rowClass(index === chosen, open)}
        aria-rowindex={index + 2}
        aria-selected={open}
        style={{ transform: `translateY(${index * ROW - offset + top}px)` }}
        onClick={() => {
          setActive(index);
          onOpen(index);
        }}
      >
        {columns.map((column, position) => (
          <div key={column.kind} role="gridcell" class={column.kind}>
            {content ? content[position] : <span class="bone" />}
          </div>
        ))}
      </div>,
    );
  }
  return (
    <div
      ref={scroller}
      class="grid"
      id={id}
      role="grid"
      tabIndex={0}
      aria-label={label}
      aria-rowcount={total + 1}
      aria-activedescendant={total > 0 && chosen >= first && chosen <= last ? `${id}-${chosen}` : undefined}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={onKeyDown}
    >
      <div role="row" class="grid-head" aria-rowindex={1}>
        {columns.map((column) => (
          <div key={column.kind} role="columnheader" class={column.kind}>
            {column.title}
          </div>
        ))}
      </div>
      <div role="rowgroup" class="grid-rows" style={{ height: `${drawn}px` }}>
        {rows}
      </div>
    </div>
  );
}

const HEAD = 32;

function rowClass(isActive: boolean, isOpen: boolean): string {
  return ["grid-row", isActive && "active", isOpen && "open"].filter(Boolean).join(" ");
}
