/** The fields of a question: its text, and its expected passages, from a search or from a document's text. */
import { useMemo, useState } from "preact/hooks";
import { Fragment, h } from "../jsx";
import { gateway } from "../api";
import { CodePoints } from "../bases/code_points";
import { MarkedText, type Span } from "../bases/marked_text";
import { Loaded } from "../parts";
import { useResource } from "../resource";
import { link } from "../route";
import { mark, plain, raw, Stored } from "../stored";
import { words } from "../words";
import { Labels, PlaceName } from "./labels";
import type { Candidate, Expected, SetQuestion } from "./sets";
import { say } from "./words";

const RESULTS = 20;

interface Properties {
  base: string;
  question: SetQuestion;
  set: (question: SetQuestion) => void;
  remove: () => void;
}

export function QuestionFields({ base, question, set, remove }: Properties) {
  const [asked, setAsked] = useState("");
  const { text, earlier, passages } = question;
  const expect = (next: Expected[]): void => set({ ...question, passages: next });
  return (
    <div class="stack tight">
      {earlier.length > 0 && (
        <p class="fine">
          {say.earlier}: <Stored value={mark(earlier.map(raw).join("; "))} max={1000} />
        </p>
      )}
      <label class="field">
        <span>{say.question}</span>
        <textarea class="question" value={raw(text)} onInput={(event) => set({ ...question, text: mark(event.currentTarget.value) })} />
      </label>
      <ul class="chips">
        {passages.map((each, index) => (
          <li key={index} class="chip">
            <Place base={base} of={each} />
            <button type="button" aria-label={`${words.remove}: ${plain(each.documentName)}`} onClick={() => expect(passages.toSpliced(index, 1))}>
              ×
            </button>
          </li>
        ))}
      </ul>
      <p class="row">
        <button type="button" disabled={!raw(text).trim()} onClick={() => setAsked(raw(text))}>
          {say.find}
        </button>
        <button type="button" class="danger" onClick={remove}>
          {words.remove}
        </button>
      </p>
      {asked && <Results key={asked} base={base} text={asked} expected={passages} set={expect} />}
      <details>
        <summary>{say.addPassage}</summary>
        <OfDocument base={base} add={(each) => expect([...passages, each])} />
      </details>
    </div>
  );
}

function Place({ base, of: { documentName, start, end } }: { base: string; of: Expected }) {
  const span = typeof start === "number" && typeof end === "number" ? { start, end } : undefined;
  return (
    <a href={link(["bases", base, "documents", documentName], span && { span: `${span.start}-${span.end}` })}>
      <PlaceName document={documentName} span={span} />
    </a>
  );
}

function Results({ base, text, expected, set }: { base: string; text: string; expected: Expected[]; set: (expected: Expected[]) => void }) {
  const found = useResource("results", async (signal) => {
    const body = { query: text, maxResults: RESULTS, minScore: 0 } as never;
    const { value } = await gateway("post", "/ragstore/rags/{id}/query", { path: { id: base }, body, signal });
    return value.results.flatMap(({ metadata, text: own }): Candidate[] => {
      const { document_name: document, char_start: start, char_end: end } = metadata as Record<string, unknown>;
      if (typeof document !== "string") return [];
      const span = typeof start === "number" && typeof end === "number" ? { start, end } : undefined;
      return [{ document: mark(document), span, text: own }];
    });
  });
  return <Loaded of={found} rows={2} draw={(all) => (all.length === 0 ? <p>{say.noPassage}</p> : <Labels of={all} expected={expected} set={set} />)} />;
}

/** A passage that is selected in the text of a document, or written as numbers. Without numbers it is the whole document. */
function OfDocument({ base, add }: { base: string; add: (expected: Expected) => void }) {
  const [name, setName] = useState("");
  const [shown, setShown] = useState("");
  const [span, setSpan] = useState({ start: "", end: "" });
  const isSpan = span.start !== "" && span.end !== "";
  return (
    <div class="stack tight">
      <div class="form-row">
        <label class="field">
          <span>{say.document}</span>
          <input value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <button type="button" disabled={!name} onClick={() => setShown(name)}>
          {say.open}
        </button>
        {(["start", "end"] as const).map((side) => (
          <label key={side} class="field">
            <span>{say[side]}</span>
            <input type="number" min={0} value={span[side]} onInput={(event) => setSpan({ ...span, [side]: event.currentTarget.value })} />
          </label>
        ))}
        <button type="button" disabled={!name} onClick={() => add({ documentName: mark(name), ...(isSpan && { start: Number(span.start), end: Number(span.end) }) })}>
          {words.add}
        </button>
      </div>
      {shown && (
        <Text
          key={shown}
          base={base}
          name={shown}
          span={isSpan ? { start: Number(span.start), end: Number(span.end) } : undefined}
          select={({ start, end }) => setSpan({ start: String(start), end: String(end) })}
        />
      )}
    </div>
  );
}

function Text({ base, name, span, select }: { base: string; name: string; span: Span | undefined; select: (span: Span) => void }) {
  const text = useResource("text", async (signal) => (await gateway("get", "/ragstore/rags/{id}/texts/{name}", { path: { id: base, name }, signal })).value.text);
  return <Loaded of={text} draw={(value) => <Selectable value={value} span={span} select={select} />} />;
}

function Selectable({ value, span, select }: { value: Stored; span: Span | undefined; select: (span: Span) => void }) {
  const points = useMemo(() => new CodePoints(raw(value)), [value]);
  const chosen = span && { start: points.utf16(span.start), end: points.utf16(span.end) };
  return (
    <>
      <p class="fine">{say.selectHint}</p>
      <MarkedText value={value} spans={NONE} chosen={chosen} select={({ start, end }) => select({ start: points.index(start), end: points.index(end) })} />
    </>
  );
}

const NONE: Span[] = [];
