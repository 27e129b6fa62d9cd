/** Markdown as elements. All of its text is drawn as text: nothing of it becomes HTML. */
import { useMemo } from "preact/hooks";
import { h, type Child } from "./jsx";
import { blocksOf, type Block, type Inline } from "./markdown_blocks";
import { mark, Stored } from "./stored";

/** Draws the text between two places of the source. */
export type Span = (start: number, end: number) => Child;

export function Markdown({ text, drawSpan }: { text: string; drawSpan?: Span }) {
  const blocks = useMemo(() => blocksOf(text), [text]);
  return <div class="markdown">{new Drawer(text, drawSpan).blocks(blocks)}</div>;
}

class Drawer {
  private readonly span: Span;

  constructor(
    private readonly text: string,
    drawSpan: Span | undefined,
  ) {
    this.span = drawSpan ?? ((start, end) => <Stored value={this.slice(start, end)} lines />);
  }

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
      if (part.is === "text") return this.span(part.start, part.end);
      if (part.is === "code") return <code><Stored value={this.slice(part.start, part.end)} /></code>;
      if (part.is === "strong") return <strong>{this.inlines(part.parts)}</strong>;
      if (part.is === "link") return <WebLink href={part.href} host={part.host}>{this.inlines(part.parts)}</WebLink>;
      return <em>{this.inlines(part.parts)}</em>;
    });
  }

  private slice(start: number, end: number): Stored {
    return mark(this.text.slice(start, end));
  }
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
