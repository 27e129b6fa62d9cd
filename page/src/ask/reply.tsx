/** A reply as text: its Markdown becomes elements, and its citations become buttons. Nothing of it becomes HTML. */
import { useMemo } from "preact/hooks";
import { h, type Child } from "../jsx";
import { CodePoints } from "../bases/code_points";
import { mark, plain, Stored, StoredText } from "../stored";
import { blocksOf, type Block, type Inline } from "./markdown";
import type { Citation, Passage } from "./passages";
import { say } from "./words";

/** A longer reply is drawn without its Markdown. */
const MAX_MARKDOWN = 50_000;

export type Open = (passage: Passage) => void;

/** A citation, in UTF-16. */
interface Cited {
  start: number;
  end: number;
  passages: Passage[];
}

export function Reply({ text, citations, open }: { text: string; citations: Citation[]; open: Open }) {
  const drawer = useMemo(() => {
    const points = new CodePoints(text);
    const cited = citations.map(({ start, end, passages }): Cited => ({ start: points.utf16(start), end: points.utf16(end), passages }));
    return new Drawer(text, cited, open);
  }, [text, citations]);
  if (text.length > MAX_MARKDOWN) return <StoredText value={mark(text)} />;
  return <div class="reply">{drawer.blocks(blocksOf(text))}</div>;
}

class Drawer {
  constructor(
    private readonly text: string,
    private readonly cited: Cited[],
    private readonly open: Open,
  ) {}

  blocks(blocks: Block[]): Child {
    return blocks.map((each) => this.block(each));
  }

  private block(block: Block): Child {
    if (block.is === "rule") return <hr />;
    if (block.is === "code") {
      return (
        <pre tabIndex={0}>
          <Stored value={this.slice(block.start, block.end)} lines />
        </pre>
      );
    }
    if (block.is === "list") {
      const items = block.items.map((item) => <li>{this.blocks(item)}</li>);
      return block.first === undefined ? <ul>{items}</ul> : <ol start={block.first}>{items}</ol>;
    }
    const parts = this.inlines(block.parts);
    if (block.is === "quote") return <blockquote>{parts}</blockquote>;
    return <p dir="auto">{block.is === "heading" ? <strong>{parts}</strong> : parts}</p>;
  }

  private inlines(parts: Inline[]): Child {
    return parts.map((part) => {
      if (part.is === "text") return this.withCitations(part.start, part.end);
      if (part.is === "code") return <code><Stored value={this.slice(part.start, part.end)} /></code>;
      if (part.is === "strong") return <strong>{this.inlines(part.parts)}</strong>;
      if (part.is === "link") return <WebLink href={part.href} host={part.host}>{this.inlines(part.parts)}</WebLink>;
      return <em>{this.inlines(part.parts)}</em>;
    });
  }

  private withCitations(start: number, end: number): Child {
    const parts: Child[] = [];
    let at = start;
    for (const each of this.within(start, end)) {
      if (each.start > at) parts.push(<Stored value={this.slice(at, each.start)} lines />);
      parts.push(<Citations of={each.passages} label={this.slice(each.start, each.end)} open={this.open} />);
      at = each.end;
    }
    if (at < end) parts.push(<Stored value={this.slice(at, end)} lines />);
    return parts;
  }

  private within(start: number, end: number): Cited[] {
    let last = start;
    return this.cited.filter((each) => {
      const isOwn = each.start >= last && each.end <= end;
      if (isOwn) last = each.end;
      return isOwn;
    });
  }

  private slice(start: number, end: number): Stored {
    return mark(this.text.slice(start, end));
  }
}

/** The buttons of a citation: its own text, and the numbers of further documents that it cites. */
function Citations({ of, label, open }: { of: Passage[]; label: Stored; open: Open }) {
  const [first, ...others] = of;
  if (!first) return <Stored value={label} />;
  const further = others.filter((each, index) => each.number !== first.number && others.findIndex((one) => one.number === each.number) === index);
  return (
    <span>
      <Cite of={first} open={open}>
        <Stored value={label} max={80} />
      </Cite>
      {further.map((each) => (
        <Cite key={each.number} of={each} open={open}>
          [{each.number}]
        </Cite>
      ))}
    </span>
  );
}

function Cite({ of, open, children }: { of: Passage; open: Open; children?: Child }) {
  const title = say.cites(of.number, plain(of.title));
  return (
    <button type="button" class="cite" title={title} aria-label={title} onClick={() => open(of)}>
      {children}
    </button>
  );
}

/** A link to another host, which it names. */
export function WebLink({ href, host, children }: { href: string; host: string; children?: Child }) {
  return (
    <span>
      <a href={href} target="_blank" rel="noopener noreferrer">
        {children}
      </a>{" "}
      <span class="fine">
        (<Stored value={mark(host)} max={100} />)
      </span>
    </span>
  );
}

