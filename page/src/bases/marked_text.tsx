/** A text with its chunks marked, by the browser's highlights over ranges: no element is added for a mark. */
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { h } from "../jsx";
import { raw, StoredText, type Stored } from "../stored";
import { formatted, words } from "../words";

const SHOWN_CHARACTERS = 12_000_000;
const TINTS = 3;
const PRIORITY = { tint: 0, overlap: 1, chosen: 2 } as const;

/** A part of a text, in UTF-16. */
export interface Span {
  start: number;
  end: number;
}

/** A part of a node that a span covers. */
interface Part {
  node: ChildNode;
  from: number;
  to: number;
}

interface Properties {
  value: Stored;
  spans: Span[];
  chosen: Span | undefined;
  /** Called with the index in UTF-16 of a click. */
  choose?: (at: number) => void;
  /** Called with a part of the text that is selected. */
  select?: (span: Span) => void;
}

export function MarkedText({ value, spans, chosen, choose, select }: Properties) {
  const container = useRef<HTMLDivElement>(null);
  const length = raw(value).length;
  useLayoutEffect(() => {
    const element = container.current;
    if (!element) return undefined;
    const map = new TextMap(element);
    const removals = spans.map((span, index) => add(`chunk-${index % TINTS}`, PRIORITY.tint, map.range(span)));
    removals.push(...overlapsOf(spans).map((span) => add("chunk-overlap", PRIORITY.overlap, map.range(span))));
    return () => removals.forEach((remove) => remove());
  }, [value, spans]);
  useEffect(() => {
    const element = container.current;
    if (!element || !chosen) return undefined;
    const map = new TextMap(element);
    const range = map.range(chosen);
    if (range) reveal(element, map.block(chosen.start), range);
    if (typeof Highlight === "undefined") return wrap(map.parts(chosen));
    return add("chunk-chosen", PRIORITY.chosen, range);
  }, [value, chosen?.start, chosen?.end]);

  function click(event: MouseEvent): void {
    const element = container.current;
    const selection = document.getSelection();
    if (!element || !selection) return;
    const map = new TextMap(element);
    if (!selection.isCollapsed) {
      const { startContainer, startOffset, endContainer, endOffset } = selection.getRangeAt(0);
      const [start, end] = [map.indexIn(startContainer, startOffset), map.indexIn(endContainer, endOffset)];
      if (select && start !== undefined && end !== undefined) select({ start, end });
      return;
    }
    const at = choose && map.indexAt(event.clientX, event.clientY);
    if (at !== undefined) choose?.(at);
  }
  return (
    <div class="marked" onClick={click}>
      <StoredText value={value} max={SHOWN_CHARACTERS} container={container} />
      {length > SHOWN_CHARACTERS && <p class="fine">{words.textCut(formatted(SHOWN_CHARACTERS), formatted(length))}</p>}
    </div>
  );
}

/** The parts of a text that are in two chunks. */
export function overlapsOf(spans: Span[]): Span[] {
  const found: Span[] = [];
  let end = 0;
  for (const span of spans) {
    if (span.start < end) found.push({ start: span.start, end: Math.min(end, span.end) });
    end = Math.max(end, span.end);
  }
  return found;
}

/** Add a range to a highlight of the page, which all texts share. */
function add(name: string, priority: number, range: StaticRange | undefined): () => void {
  if (typeof Highlight === "undefined" || !range) return () => undefined;
  const registry = CSS.highlights;
  let highlight = registry.get(name);
  if (!highlight) {
    highlight = new Highlight();
    highlight.priority = priority;
    registry.set(name, highlight);
  }
  const own = highlight;
  own.add(range);
  return () => void own.delete(range);
}

/** Mark parts of a text by elements, in a browser without highlights. The nodes stay as they were after the removal. */
function wrap(parts: Part[]): () => void {
  const marks = parts.map(({ node, from, to }) => {
    let own = node;
    if (own instanceof Text) {
      if (to < own.data.length) own.splitText(to);
      if (from > 0) own = own.splitText(from);
    }
    const mark = document.createElement("mark");
    own.parentNode?.replaceChild(mark, own);
    mark.append(own);
    return mark;
  });
  return () => {
    for (const mark of marks) {
      const parent = mark.parentNode;
      mark.replaceWith(...mark.childNodes);
      parent?.normalize();
    }
  };
}

/** Scroll a text so that a range is visible. */
function reveal(element: HTMLElement, block: Element | undefined, range: StaticRange): void {
  block?.scrollIntoView({ block: "nearest" });
  const live = document.createRange();
  live.setStart(range.startContainer, range.startOffset);
  live.setEnd(range.endContainer, range.endOffset);
  const offset = live.getBoundingClientRect().top - element.getBoundingClientRect().top;
  element.scrollTop += offset - element.clientHeight / 4;
}

/**
 * Where the characters of a text are in the document. A text node has as many as it has units of UTF-16; an element stands
 * for one character that is drawn by its number.
 */
class TextMap {
  private readonly blocks: Element[];
  /** The nodes of each block, with the index of the first character of each. */
  private readonly nodes: { node: ChildNode; start: number }[][] = [];
  private readonly starts: number[] = [];

  constructor(element: Element) {
    this.blocks = [...element.children];
    let at = 0;
    for (const block of this.blocks) {
      this.starts.push(at);
      const own: { node: ChildNode; start: number }[] = [];
      for (const node of block.firstElementChild?.childNodes ?? []) {
        own.push({ node, start: at });
        at += node instanceof Text ? node.data.length : 1;
      }
      this.nodes.push(own);
    }
  }

  /** The block of an index. */
  block(index: number): Element | undefined {
    return this.blocks[lastAtMost(this.starts, index)];
  }

  /** The range of a span; undefined if it is not shown. */
  range({ start, end }: Span): StaticRange | undefined {
    const from = this.point(start, start);
    // The end belongs to the character before it.
    const to = this.point(end, Math.max(end - 1, start));
    if (!from || !to) return undefined;
    return new StaticRange({ startContainer: from[0], startOffset: from[1], endContainer: to[0], endOffset: to[1] });
  }

  /** The parts of nodes that a span covers. */
  parts({ start, end }: Span): Part[] {
    const first = lastAtMost(this.starts, start);
    const last = lastAtMost(this.starts, Math.max(end - 1, start));
    return this.nodes.slice(first, last + 1).flatMap((nodes) =>
      nodes.flatMap(({ node, start: at }) => {
        const length = node instanceof Text ? node.data.length : 1;
        const [from, to] = [Math.max(start - at, 0), Math.min(end - at, length)];
        return from < to ? [{ node, from, to }] : [];
      }),
    );
  }

  /** The index of the character below a point of the window. */
  indexAt(x: number, y: number): number | undefined {
    const found = document.caretPositionFromPoint?.(x, y);
    return found ? this.indexIn(found.offsetNode, found.offset) : undefined;
  }

  /** The index of a position in the document; undefined outside of the text. */
  indexIn(container: Node, offset: number): number | undefined {
    const number = this.blocks.findIndex((block) => block.contains(container));
    const own = this.nodes[number]?.find(({ node }) => node.contains(container));
    if (!own) return undefined;
    return own.node === container ? own.start + offset : own.start;
  }

  /** The position of an index in the document, in the node of a character. */
  private point(index: number, character: number): [Node, number] | undefined {
    const nodes = this.nodes[lastAtMost(this.starts, character)] ?? [];
    const number = lastAtMost(nodes, character, ({ start }) => start);
    const own = nodes[number];
    if (!own) return undefined;
    if (own.node instanceof Text) return [own.node, Math.min(index - own.start, own.node.data.length)];
    return own.node.parentNode ? [own.node.parentNode, number + (index > own.start ? 1 : 0)] : undefined;
  }
}

/** The last of ascending values that is at most a number. */
function lastAtMost<T>(values: T[], most: number, key: (value: T) => number = Number): number {
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (key(values[middle] as T) <= most) low = middle;
    else high = middle - 1;
  }
  return low;
}
