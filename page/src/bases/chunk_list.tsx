/** The list of the chunks of a text: the equivalent of the marks for keyboard and screen reader. */
import { h } from "../jsx";
import { Grid, type Column } from "../grid";
import { Empty } from "../parts";
import { mark, oneLine, raw, Stored } from "../stored";
import { formatted } from "../words";
import type { Chunk } from "./calls";
import type { Span } from "./marked_text";
import { say } from "./words";

const COLUMNS: Column[] = [
  { title: say.chunkColumns.number, kind: "c-index" },
  { title: say.chunkColumns.text, kind: "c-name" },
  { title: say.chunkColumns.tokens, kind: "c-tokens" },
];

interface Properties {
  id: string;
  text: Stored | undefined;
  chunks: Chunk[];
  spans: Span[];
  chosen: number | undefined;
  choose: (at: number) => void;
}

export function ChunkList({ id, text, chunks, spans, chosen, choose }: Properties) {
  if (chunks.length === 0) return <Empty of={[say.chunksLabel(0), ""]} />;
  return (
    <Grid
      id={id}
      label={say.chunksLabel(chunks.length)}
      columns={COLUMNS}
      total={chunks.length}
      cells={(at) => cellsOf(chunks[at], spans[at], text)}
      onVisible={() => undefined}
      onMove={choose}
      onOpen={choose}
      isOpen={(at) => at === chosen}
      current={chosen}
    />
  );
}

function cellsOf(chunk: Chunk | undefined, span: Span | undefined, text: Stored | undefined) {
  if (!chunk || !span) return undefined;
  return [
    <span>{formatted(chunk.index)}</span>,
    <span>
      {text !== undefined && <Stored value={oneLine(mark(raw(text).slice(span.start, Math.min(span.end, span.start + 300))), 150)} />}
      {text !== undefined && " "}
      <span class="fine">
        {chunk.layer !== undefined && <Stored value={chunk.layer} max={20} />}
        {chunk.layer !== undefined && " "}
        {chunk.page !== undefined && `${say.page(chunk.page)} `}
        {chunk.heading !== undefined && <Stored value={chunk.heading} max={120} />}
        {text === undefined && ` ${formatted(chunk.start)}–${formatted(chunk.end)}`}
      </span>
    </span>,
    <span>{formatted(chunk.tokens)}</span>,
  ];
}
