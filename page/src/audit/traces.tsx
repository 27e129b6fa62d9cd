/** The data of a step or an entry: searches of bases with their passages, HTTP calls, contexts, feedback. */
import { h, type Child } from "../jsx";
import { momentOf } from "../bases/calls";
import { say as fates } from "../compare/words";
import { Bar, Table } from "../parts";
import { link } from "../route";
import { mark, plain, raw, Stored, StoredText } from "../stored";
import { formatted, scored, words } from "../words";
import type { Names } from "./names";
import { entriesOf, SEARCHES, type Passage, type Search } from "./searches";
import { say } from "./words";

interface Call {
  httpCall: Stored;
  contextLength?: number;
  error?: Stored;
}

const CALL = "rag:httpcall:trace:";
const CONTEXT = "rag:context:";
const TEXTS: Record<string, string> = { "rag:question": say.question, "rag:feedback:comment": say.comment };

export function Traces({ of, names }: { of: unknown; names: Names }) {
  return <div class="stack">{entriesOf(of).map(([key, value]) => drawn(key, value, names))}</div>;
}

function drawn(key: string, value: unknown, names: Names): Child {
  if (key.startsWith(SEARCHES)) return (value as Search[]).map((each, index) => <SearchView key={index} task={key.slice(SEARCHES.length)} of={each} names={names} />);
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

function SearchView({ task, of, names }: { task: string; of: Search; names: Names }) {
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
      {passages.length > 0 && <Passages of={passages} base={id} names={names} />}
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

function Passages({ of, base, names }: { of: Passage[]; base: Stored | undefined; names: Names }) {
  return (
    <Table label={say.passages} titles={[say.fate, ...NUMBERS, say.passage]} numbers={NUMBERS}>
      {of.map((each, index) => (
        <tr key={index}>
          <td>{fateOf(each)}</td>
          <td class="n">
            <span title={say.scale}>{scored(each.score)}</span>
            <Bar share={each.score} />
          </td>
          <td>
            <Document base={base} id={each.documentId} names={names} />
            <p class="fine mono">
              <Stored value={each.id} max={200} />
            </p>
          </td>
        </tr>
      ))}
    </Table>
  );
}

/** The name of a document, or its id if it does not exist for the key. */
function Document({ base, id, names }: { base: Stored | undefined; id: Stored | undefined; names: Names }) {
  if (base === undefined || id === undefined) return null;
  const name = names.get(raw(base))?.get(raw(id));
  if (name !== undefined) {
    return (
      <a href={link(["bases", base, "documents", name])} title={plain(id)}>
        <Stored value={name} max={200} />
      </a>
    );
  }
  return (
    <span class="fine mono">
      {say.document} <Stored value={id} max={200} />
    </span>
  );
}

function fateOf({ fate, number, omitted }: Passage): string {
  // A later version may have another fate.
  const known = fates.fates[fate] ?? say.otherKind;
  const place = number ? `[${formatted(number)}] ` : "";
  return `${place}${known}${omitted ? say.omitted : ""}`;
}
