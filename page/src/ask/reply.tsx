/** A reply as text: its Markdown becomes elements, and its citations become buttons. Nothing of it becomes HTML. */
import { useMemo } from "preact/hooks";
import { h, type Child } from "../jsx";
import { CodePoints } from "../bases/code_points";
import { Markdown, type Span } from "../markdown";
import { mark, plain, Stored, StoredText } from "../stored";
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
  const cited = useMemo(() => {
    const points = new CodePoints(text);
    return citations.map(({ start, end, passages }): Cited => ({ start: points.utf16(start), end: points.utf16(end), passages }));
  }, [text, citations]);
  if (text.length > MAX_MARKDOWN) return <StoredText value={mark(text)} />;
  const drawSpan: Span = (start, end) => withCitations(text, cited, start, end, open);
  return (
    <div class="reply">
      <Markdown text={text} drawSpan={drawSpan} />
    </div>
  );
}

/** A part of the text, in which citations are buttons. */
function withCitations(text: string, cited: Cited[], start: number, end: number, open: Open): Child {
  const parts: Child[] = [];
  let at = start;
  for (const each of within(cited, start, end)) {
    if (each.start > at) parts.push(<Stored value={mark(text.slice(at, each.start))} lines />);
    parts.push(<Citations of={each.passages} label={mark(text.slice(each.start, each.end))} open={open} />);
    at = each.end;
  }
  if (at < end) parts.push(<Stored value={mark(text.slice(at, end))} lines />);
  return parts;
}

function within(cited: Cited[], start: number, end: number): Cited[] {
  let last = start;
  return cited.filter((each) => {
    const isOwn = each.start >= last && each.end <= end;
    if (isOwn) last = each.end;
    return isOwn;
  });
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
