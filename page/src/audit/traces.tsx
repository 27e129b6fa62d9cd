/** The data of a step or an entry: searches of bases with their passages, HTTP calls, contexts, feedback. */
import { h, type Child } from "../jsx";
import { momentOf } from "../bases/calls";
import { say as fates } from "../compare/words";
import { Bar, Table } from "../parts";
import { link } from "../route";
import { mark, Stored, StoredText } from "../stored";
import { formatted, scored, words } from "../words";
import { say } from "./words";

/** The contract has the data of a step as an object: the keys name the tasks. */
interface Search {
  kb: Stored;
  id?: Stored;
  version?: number;
  provider?: Stored;
  storeType?: Stored;
  maxResults?: number;
  minScore?: number;
  retrievedCount?: number;
  passages?: Passage[];
  error?: Stored;
}

interface Passage {
  id: Stored;
  score: number;
  fate: keyof typeof fates.fates;
  documentId?: Stored;
  number?: number;
  omitted?: boolean;
}

interface Call {
  httpCall: Stored;
  contextLength?: number;
  error?: Stored;
}

const SEARCHES = "rag:trace:";
const CALL = "rag:httpcall:trace:";
const CONTEXT = "rag:context:";
const TEXTS: Record<string, string> = { "rag:question": say.question, "rag:feedback:comment": say.comment };

const entriesOf = (data: unknown): [string, unknown][] => Object.entries(data as Record<string, unknown>);

/** The numbers of passages that were in the prompt, and that were found. */
export function usedOf(data: unknown): { used: number; found: number } {
  const searches = entriesOf(data).flatMap(([key, value]) => (key.startsWith(SEARCHES) ? (value as Search[]) : []));
  const passages = searches.flatMap((each) => each.passages ?? []);
  return { used: passages.filter((each) => each.number).length, found: passages.length };
}

export function Traces({ of }: { of: unknown }) {
  return <div class="stack">{entriesOf(of).map(([key, value]) => drawn(key, value))}</div>;
}

function drawn(key: string, value: unknown): Child {
  if (key.startsWith(SEARCHES)) return (value as Search[]).map((each, index) => <SearchView key={index} task={key.slice(SEARCHES.length)} of={each} />);
  if (key.startsWith(CALL)) return <CallView task={key.slice(CALL.length)} of={value as Call} />;
  if (key === "rag:feedback") return <Feedback of={value as { helpful: boolean; createdOn: Stored }} />;
  if (key === "steps") return <p>{say.deleted(value as number)}</p>;
  const title = key.startsWith(CONTEXT) ? say.context(key.slice(CONTEXT.length)) : TEXTS[key];
  if (title === undefined) return null;
  return (
    <div class="stack tight" role="group" aria-label={title}>
      <h3>{title}</h3>
      <StoredText value={mark(value as string)} />
    </div>
  );
}

function Feedback({ of: { helpful, createdOn } }: { of: { helpful: boolean; createdOn: Stored } }) {
  return (
    <p>
      <span class={helpful ? "state-ok" : "state-bad"}>{helpful ? say.helpful : say.notHelpful}</span>{" "}
      <span class="fine">{momentOf(createdOn)}</span>
    </p>
  );
}

function CallView({ task, of: { httpCall, contextLength, error } }: { task: string; of: Call }) {
  return (
    <div class="stack tight" role="group" aria-label={say.httpCall}>
      <h3>
        {say.httpCall} <Stored value={httpCall} max={200} />
      </h3>
      <p class="fine">{say.task(task)}</p>
      <Outcome error={error} text={say.added(contextLength ?? 0)} />
    </div>
  );
}

function SearchView({ task, of }: { task: string; of: Search }) {
  const { kb, id, version, provider, storeType, maxResults, minScore, retrievedCount, passages = [], error } = of;
  return (
    <div class="stack tight" role="group" aria-label={say.search}>
      <h3>
        {id === undefined ? (
          <Stored value={kb} max={200} />
        ) : (
          <a href={link(["bases", id])}>
            <Stored value={kb} max={200} />
          </a>
        )}
      </h3>
      <p class="fine facts">
        <span>{say.task(task)}</span>
        {version !== undefined && <span>{say.version(formatted(version))}</span>}
        {provider !== undefined && (
          <span>
            <Stored value={provider} max={60} />
          </span>
        )}
        {storeType !== undefined && (
          <span>
            <Stored value={storeType} max={60} />
          </span>
        )}
        {maxResults !== undefined && <span>{say.atMost(maxResults, scored(minScore ?? 0))}</span>}
      </p>
      <Outcome error={error} text={say.retrieved(retrievedCount ?? 0)} />
      {passages.length > 0 && <Passages of={passages} />}
    </div>
  );
}

function Outcome({ error, text }: { error: Stored | undefined; text: string }) {
  if (error === undefined) return <p>{text}</p>;
  return (
    <p class="state-bad">
      {say.failed} <Stored value={error} max={200} />
    </p>
  );
}

const NUMBERS = [words.score];

function Passages({ of }: { of: Passage[] }) {
  return (
    <Table label={say.passages} titles={[say.fate, ...NUMBERS, say.passage]} numbers={NUMBERS}>
      {of.map((each, index) => (
        <tr key={index}>
          <td>{fateOf(each)}</td>
          <td class="n">
            <span title={say.scale}>{scored(each.score)}</span>
            <Bar share={each.score} />
          </td>
          <td class="mono">
            <Stored value={each.id} max={200} />
            {each.documentId !== undefined && (
              <p class="fine">
                {say.document} <Stored value={each.documentId} max={200} />
              </p>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}

function fateOf({ fate, number, omitted }: Passage): string {
  // A later version may have another fate.
  const known = fates.fates[fate] ?? say.otherKind;
  const place = number ? `[${formatted(number)}] ` : "";
  return `${place}${known}${omitted ? say.omitted : ""}`;
}
