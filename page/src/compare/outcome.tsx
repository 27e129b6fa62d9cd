/** The outcome of a side: its searches, the passages with their fates, the prompt, and the time of each part. */
import { useRef, useState } from "preact/hooks";
import { Fragment, h } from "../jsx";
import { say as asked } from "../ask/words";
import { Bar, Table } from "../parts";
import { link } from "../route";
import { mark, raw, Stored, StoredText } from "../stored";
import { formatted, scored } from "../words";
import { keyOf, type Trial, type TrialPassage } from "./sides";
import { say } from "./words";

const SHOWN_CHARACTERS = 600;
/** Passages that are drawn first: a base may find 2,000. */
const FIRST = 50;

interface Properties {
  of: Trial;
  /** The other side; undefined until it has responded. */
  other: Trial | undefined;
  otherName: string;
}

export function Outcome({ of, other, otherName }: Properties) {
  const used = of.passages.filter((each) => each.number !== undefined).length;
  const reason = of.reason === undefined ? "" : raw(of.reason);
  return (
    <div class="stack">
      <p>{say.summary(used, of.passages.length, milliseconds(of.ms))}</p>
      {reason && <p class="state-bad">{asked.reasons[reason] ?? asked.noPassages}</p>}
      <Searches of={of} />
      <Passages of={of.passages} other={other} otherName={otherName} />
      <Prompt of={of} />
      <Stages of={of} />
    </div>
  );
}

const milliseconds = (value: number): string => `${formatted(value)} ms`;

function Searches({ of: { searches, httpCalls } }: { of: Trial }) {
  return (
    <ul class="passages" aria-label={say.searches}>
      {searches.map((each, index) => (
        <li key={index}>
          <Stored value={each.base} max={200} />{" "}
          {each.error !== undefined ? (
            <span class="message">{failedWith(each.error)}</span>
          ) : (
            <span class="fine">{say.searched(each.maxResults ?? 0, scored(each.minScore ?? 0))}</span>
          )}
        </li>
      ))}
      {httpCalls.map((each, index) => (
        <li key={`call ${index}`}>
          <Stored value={each.name} max={200} />{" "}
          {each.error !== undefined ? (
            <span class="message">{failedWith(each.error)}</span>
          ) : (
            <span class="fine">{say.added(each.contextLength)}</span>
          )}
        </li>
      ))}
    </ul>
  );
}

const failedWith = (code: Stored) => <Stored value={mark(say.failed(raw(code)))} max={200} />;

function Passages({ of, other, otherName }: { of: TrialPassage[]; other: Trial | undefined; otherName: string }) {
  const [isAll, setAll] = useState(false);
  if (of.length === 0) return <p class="fine">{say.noPassage}</p>;
  const sorted = [...of].sort((one, next) => (one.number ?? Infinity) - (next.number ?? Infinity) || next.score - one.score);
  const shown = isAll ? sorted : sorted.slice(0, FIRST);
  const others = other && new Map(other.passages.map((each) => [keyOf(each), each]));
  return (
    <>
      <ol class="passages" aria-label={say.passages}>
        {shown.map((each, index) => (
          <li key={index} class="box">
            <p class="spread">
              <strong>{fateOf(each)}</strong>
              <span class="row" title={asked.scale}>
                {scored(each.score)} <Bar share={each.score} />
              </span>
              {others && <span class="fine">{say.other(otherName, fateIn(others.get(keyOf(each))))}</span>}
            </p>
            <h3>
              <Title of={each} />
            </h3>
            <p class="passage">
              <Stored value={each.text} lines max={SHOWN_CHARACTERS} />
            </p>
          </li>
        ))}
      </ol>
      {shown.length < sorted.length && (
        <p class="row">
          <button type="button" onClick={() => setAll(true)}>
            {say.more(sorted.length - shown.length)}
          </button>
        </p>
      )}
    </>
  );
}

function fateOf({ fate, number }: TrialPassage): string {
  if (number === undefined) return say.fates[fate];
  return fate === "cut" ? say.cutInPrompt(number) : say.inPrompt(number);
}

const fateIn = (passage: TrialPassage | undefined): string => (passage ? fateOf(passage) : say.notFound);

/** The document of a passage, with a link to its place in it. A record of others has no document here. */
function Title({ of: { title, baseId, documentName, start, end } }: { of: TrialPassage }) {
  const name = <Stored value={title} max={300} />;
  if (documentName === undefined) return name;
  const span = start === undefined || end === undefined ? undefined : `${start}-${end}`;
  return <a href={link(["bases", baseId, "documents", documentName], { span })}>{name}</a>;
}

function Prompt({ of: { messages } }: { of: Trial }) {
  const box = useRef<HTMLDivElement>(null);
  if (messages === undefined) return <p class="fine">{say.promptHidden}</p>;
  const characters = messages.reduce((sum, each) => sum + raw(each.content).length, 0);
  return (
    <details>
      <summary>{say.prompt(messages.length, characters)}</summary>
      <div class="stack tight">
        {messages.map((each, index) => (
          <div key={index} class="stack tight">
            <p class="fine">
              <Stored value={each.role} />
            </p>
            <StoredText value={each.content} container={box} />
          </div>
        ))}
      </div>
    </details>
  );
}

function Stages({ of: { stages, searches } }: { of: Trial }) {
  const names = new Map(searches.map((each) => [each.baseId && raw(each.baseId), each.base]));
  return (
    <details>
      <summary>{say.stages}</summary>
      <p class="fine">{say.concurrent}</p>
      <Table label={say.stages} titles={[say.stage, say.milliseconds]} numbers={[say.milliseconds]}>
        {stages.map((each, index) => {
          const base = each.baseId && names.get(raw(each.baseId));
          return (
            <tr key={index}>
              <td>
                <Stored value={each.name} /> {base && <Stored value={base} max={100} />}
              </td>
              <td class="n">{formatted(each.ms)}</td>
            </tr>
          );
        })}
      </Table>
    </details>
  );
}
