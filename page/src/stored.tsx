/** Strings of callers, documents and other servers: their type, and the only component that draws them. */
import { h, type Child } from "./jsx";

declare const stored: unique symbol;

/** A string that the services store. It is a string at run time, and opaque to the compiler. */
export interface Stored {
  readonly [stored]: true;
}

/** A type of the contract whose strings, except for words of the contract itself, are stored strings. */
export type Marked<T> = T extends string
  ? string extends T
    ? Stored
    : T
  : T extends (infer Item)[]
    ? Marked<Item>[]
    : T extends object
      ? { [Key in keyof T]: Marked<T[Key]> }
      : T;

/** Mark the strings of a response. */
export function mark<T>(value: T): Marked<T> {
  return value as unknown as Marked<T>;
}

/** The string itself: for requests, addresses and comparisons, never for the document. */
export function raw(value: Stored): string {
  return value as unknown as string;
}

/** Characters that change the order of others, or that nobody sees. */
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|\r(?!\n)/u;
const HIDDEN_OR_BREAK = new RegExp(`${HIDDEN.source}|[\\t\\n\\r]`, "u");

interface Properties {
  value: Stored;
  /** Whether the string may have several lines; otherwise, a line break is drawn by its number. */
  lines?: boolean;
  /** Maximum number of characters that are drawn; the rest is replaced by an ellipsis. */
  max?: number;
}

/** Draw a stored string as text: isolated from its surroundings, and hidden characters by their numbers. */
export function Stored({ value, lines, max }: Properties) {
  const whole = raw(value);
  const shown = max !== undefined && whole.length > max ? `${cut(whole, max)}…` : whole;
  const pattern = new RegExp((lines ? HIDDEN : HIDDEN_OR_BREAK).source, "gu");
  const parts: Child[] = [];
  let end = 0;
  for (const found of shown.matchAll(pattern)) {
    parts.push(shown.slice(end, found.index), <span class="hidden-character">{numbered(found[0])}</span>);
    end = found.index + found[0].length;
  }
  parts.push(shown.slice(end));
  return <bdi>{parts}</bdi>;
}

/** The first characters of a string, without half a surrogate pair at its end. */
export function cut(text: string, length: number): string {
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}

/** A stored string as one line, for lists: breaks become spaces. */
export function oneLine(value: Stored, max: number): Stored {
  return mark(cut(raw(value), max * 2).replace(/\s+/gu, " ").trim());
}

/** The text of an attribute such as `aria-label`: hidden characters by their numbers. */
export function plain(value: Stored, max = 200): string {
  return cut(raw(value), max).replace(new RegExp(HIDDEN_OR_BREAK.source, "gu"), numbered);
}

function numbered(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

const BLOCK = 20_000;

/** Draw a long text in blocks, which the browser lays out when they become visible. */
export function StoredText({
  value,
  max = 2_000_000,
  container,
}: {
  value: Stored;
  max?: number;
  /** Receives the element whose children are the blocks. */
  container?: { current: HTMLDivElement | null };
}) {
  const text = raw(value);
  const blocks: Child[] = [];
  for (let start = 0; start < Math.min(text.length, max); ) {
    const block = cut(text.slice(start, start + BLOCK + 1), BLOCK);
    // A carriage return stays with its line feed.
    const size = block.endsWith("\r") && block.length > 1 ? block.length - 1 : block.length;
    blocks.push(
      <div class="text-block">
        <Stored value={mark(block.slice(0, size))} lines />
      </div>,
    );
    start += size;
  }
  return (
    <div class="text" ref={container ?? null} tabIndex={container ? 0 : undefined}>
      {blocks}
    </div>
  );
}
