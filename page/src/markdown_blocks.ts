/**
 * A lexer for Markdown: paragraphs, headings, lists, quotes, code, emphasis and links. Its tokens have places
 * in the source and no HTML, so that citations are found by their place, and everything is drawn as text.
 *
 * Emphasis and links end in their line. Each step is linear in the length of the text, also of one that is made to be slow.
 */

export type Inline =
  | { is: "text"; start: number; end: number }
  | { is: "code"; start: number; end: number }
  | { is: "strong" | "em"; parts: Inline[] }
  | { is: "link"; href: string; host: string; parts: Inline[] };

export type Block =
  | { is: "paragraph" | "heading" | "quote"; parts: Inline[] }
  | { is: "code"; start: number; end: number }
  | { is: "list"; first: number | undefined; items: Block[][] }
  | { is: "rule" };

const MAX_DEPTH = 6;
const MAX_NESTED = 4;
const ITEM = /^([ \t]*)(?:[-*+]|(\d{1,9})[.)])[ \t]+/u;
const FENCE = /^[ \t]*(`{3,}|~{3,})/u;
const HEADING = /^ {0,3}#{1,6}[ \t]+/u;
const QUOTE = /^ {0,3}> ?/u;
const RULE = /^ {0,3}(?:-[ \t]*){3,}$|^ {0,3}(?:\*[ \t]*){3,}$/u;

interface Open {
  indent: number;
  items: Block[][];
}

/** The blocks of a text. */
export function blocksOf(source: string): Block[] {
  const root: Block[] = [];
  let lists: Open[] = [];
  let fence = "";
  let code: { is: "code"; start: number; end: number } | undefined;
  let before: Block | undefined;
  for (let start = 0; start <= source.length; ) {
    const found = source.indexOf("\n", start);
    const end = found < 0 ? source.length : found;
    const line = source.slice(start, end);
    const own = start;
    start = end + 1;
    if (code) {
      if (line.trimStart().startsWith(fence) && !line.trim().replaceAll(fence.charAt(0), "")) code = undefined;
      else code.end = end;
      continue;
    }
    const indent = line.length - line.trimStart().length;
    if (!line.trim()) {
      before = undefined;
      continue;
    }
    const item = RULE.test(line) ? null : ITEM.exec(line);
    // A line that is not indented, and no item, ends all lists; directly below an item, it continues its text.
    if (!item && indent === 0 && !(before?.is === "paragraph" && lists.length > 0 && isText(line))) lists = [];
    if (item) {
      const ordered = item[2] === undefined ? undefined : Number(item[2]);
      into(lists, root, item[1]?.length ?? 0, ordered);
      before = undefined;
    }
    const target = lists.at(-1)?.items.at(-1) ?? root;
    const begin = own + (item ? item[0].length : indent);
    const rest = source.slice(begin, end);
    const fenced = FENCE.exec(rest);
    if (fenced) {
      fence = fenced[1] ?? "```";
      code = { is: "code", start, end: start };
      target.push(code);
      before = undefined;
      continue;
    }
    before = add(target, before, source, begin, end, item ? "" : line);
  }
  return root;
}

const isText = (line: string): boolean => ![FENCE, HEADING, QUOTE, RULE].some((each) => each.test(line));

/** Add a line to the blocks of its place. It continues the paragraph or quote before it. */
function add(target: Block[], before: Block | undefined, source: string, begin: number, end: number, line: string): Block {
  const rest = source.slice(begin, end);
  if (RULE.test(line)) return push(target, { is: "rule" });
  const heading = HEADING.exec(rest);
  if (heading) return push(target, { is: "heading", parts: inlinesOf(source, begin + heading[0].length, end) });
  const quote = QUOTE.exec(rest);
  const is = quote ? "quote" : "paragraph";
  const parts = inlinesOf(source, begin + (quote?.[0].length ?? 0), end);
  if (before?.is === is) {
    const lineBreak = source.lastIndexOf("\n", begin);
    before.parts.push({ is: "text", start: lineBreak, end: lineBreak + 1 }, ...parts);
    return before;
  }
  return push(target, { is, parts });
}

function push(target: Block[], block: Block): Block {
  target.push(block);
  return block;
}

/** Open a new item: in the list of its indentation, or in one within the last item. */
function into(lists: Open[], root: Block[], indent: number, first: number | undefined): void {
  while (lists.length > 1 && indent < (lists.at(-1)?.indent ?? 0)) lists.pop();
  const last = lists.at(-1);
  if (!last || (indent > last.indent + 1 && lists.length < MAX_DEPTH)) {
    const items: Block[][] = [];
    (last?.items.at(-1) ?? root).push({ is: "list", first, items });
    lists.push({ indent, items });
  }
  lists.at(-1)?.items.push([]);
}

/** The parts of a line. */
function inlinesOf(source: string, start: number, end: number, depth = 0): Inline[] {
  const parts: Inline[] = [];
  const finder = new Finder(source, end);
  let text = start;
  function flush(to: number): void {
    if (to > text) parts.push({ is: "text", start: text, end: to });
  }
  for (let at = start; at < end; ) {
    const token = depth < MAX_NESTED ? tokenAt(source, at, end, finder, depth) : undefined;
    if (token?.part) {
      flush(at);
      parts.push(token.part);
      text = token.next;
    } else if (token?.isEscape) {
      flush(at);
      text = at + 1;
    }
    at = token?.next ?? at + 1;
  }
  flush(end);
  return parts;
}

interface Token {
  /** Absent if its characters are text. */
  part?: Inline;
  /** Where the next one begins. */
  next: number;
  /** Whether its first character is not drawn. */
  isEscape?: boolean;
}

const ADDRESS = /https?:\/\/[^\s<>"`]{1,2000}/uy;
const TRAILING = /[.,;:!?'*_)\]}]+$/u;
const PUNCTUATION = /[!-/:-@[-`{-~]/u;

function tokenAt(source: string, at: number, end: number, finder: Finder, depth: number): Token | undefined {
  const character = source.charAt(at);
  if (character === "\\" && at + 1 < end && PUNCTUATION.test(source.charAt(at + 1))) return { next: at + 2, isEscape: true };
  if (character === "`") return codeAt(source, at, finder);
  if (character === "*" || character === "_") return emphasisAt(source, at, end, finder, depth);
  if (character === "[" || (character === "!" && source.charAt(at + 1) === "[")) return linkAt(source, at, finder);
  if (character === "h" && !/\w/u.test(source.charAt(at - 1))) {
    ADDRESS.lastIndex = at;
    const found = ADDRESS.exec(source)?.[0].slice(0, end - at).replace(TRAILING, "");
    const link = found && linkTo(found, [{ is: "text", start: at, end: at + found.length }]);
    if (link) return { part: link, next: at + found.length };
  }
  return undefined;
}

function codeAt(source: string, at: number, finder: Finder): Token | undefined {
  let size = 1;
  while (source.charAt(at + size) === "`") size += 1;
  const close = finder.next("`".repeat(size), at + size);
  // All of the run is text: its second half is no shorter run.
  if (close === undefined) return { next: at + size };
  return { part: { is: "code", start: at + size, end: close }, next: close + size };
}

function emphasisAt(source: string, at: number, end: number, finder: Finder, depth: number): Token | undefined {
  const character = source.charAt(at);
  const marker = source.charAt(at + 1) === character ? character.repeat(2) : character;
  const from = at + marker.length;
  if (from >= end || /\s/u.test(source.charAt(from))) return { next: from };
  if (character === "_" && /\w/u.test(source.charAt(at - 1))) return { next: from };
  const close = finder.closing(marker, from + 1);
  if (close === undefined) return { next: from };
  const is = marker.length === 2 ? "strong" : "em";
  return { part: { is, parts: inlinesOf(source, from, close, depth + 1) }, next: close + marker.length };
}

/** A link, or an image as a link. */
function linkAt(source: string, at: number, finder: Finder): Token | undefined {
  const from = at + (source.charAt(at) === "!" ? 2 : 1);
  const close = finder.next("](", from);
  if (close === undefined || close - from > MAX_LABEL || source.slice(from, close).includes("]")) return undefined;
  const stop = finder.next(")", close + 2);
  if (stop === undefined) return undefined;
  const address = source.slice(close + 2, stop).trim().split(/\s/u)[0] ?? "";
  const label = inlinesOf(source, from, close, MAX_NESTED);
  const link = linkTo(address, label.length > 0 ? label : [{ is: "text", start: close + 2, end: stop }]);
  return link && { part: link, next: stop + 1 };
}

const MAX_LABEL = 1000;
const MAX_ADDRESS = 2000;

/** A link to an address of the web; undefined for any other one. */
function linkTo(address: string, parts: Inline[]): Inline | undefined {
  if (address.length > MAX_ADDRESS || !/^https?:\/\//iu.test(address)) return undefined;
  try {
    const url = new URL(address);
    // A name before the host looks like one.
    return url.username || url.password ? undefined : { is: "link", href: url.href, host: url.host, parts };
  } catch {
    return undefined;
  }
}

/** Finds markers in a line. Each result is kept, also that there is none: every character of a line may be a marker. */
class Finder {
  private readonly found = new Map<string, number>();
  private readonly closings = new Map<string, number>();

  constructor(
    private readonly source: string,
    private readonly end: number,
  ) {}

  /** The next place of a marker; undefined if the line has none. */
  next(marker: string, from: number): number | undefined {
    const known = this.found.get(marker);
    if (known !== undefined && known >= from) return within(known);
    const at = this.source.slice(from, this.end).indexOf(marker);
    this.found.set(marker, at < 0 ? Infinity : from + at);
    return at < 0 ? undefined : from + at;
  }

  /** The next marker that may end emphasis: it follows a character that is no space. */
  closing(marker: string, from: number): number | undefined {
    const known = this.closings.get(marker);
    if (known !== undefined && known >= from) return within(known);
    let at = this.next(marker, from);
    while (at !== undefined && !this.closes(marker, at)) at = this.next(marker, at + 1);
    this.closings.set(marker, at ?? Infinity);
    return at;
  }

  private closes(marker: string, at: number): boolean {
    const after = this.source.charAt(at + marker.length);
    if (/\s/u.test(this.source.charAt(at - 1))) return false;
    // `**` is no end of `*`, and an underscore within a word is none.
    if (marker.length === 1 && (after === marker || this.source.charAt(at - 1) === marker)) return false;
    return marker.charAt(0) !== "_" || !/\w/u.test(after);
  }
}

const within = (at: number): number | undefined => (at === Infinity ? undefined : at);
