/** A question to a base: the passages, each with a link to its place in its document. */
import { useState } from "preact/hooks";
import { h, type Child } from "../jsx";
import { gateway, type Reply } from "../api";
import { Bar, Bones, Empty, Timing, useAttempts } from "../parts";
import { link } from "../route";
import type { components } from "../schema/gateway";
import { Stored } from "../stored";
import { scored, words } from "../words";
import type { Base } from "./calls";
import { say } from "./words";

type Hits = Reply<components["schemas"]["KnowledgeBaseHits"]>;

const MAX_QUESTION = 32_768;

export function Try({ base }: { base: Base }) {
  const { body } = base;
  const [question, setQuestion] = useState("");
  const [maxResults, setMaxResults] = useState(String(body.maxResults));
  const [minScore, setMinScore] = useState(String(body.minScore));
  const [hits, setHits] = useState<Hits>();
  const { isRunning, problem, run } = useAttempts();
  async function search(): Promise<void> {
    setHits(undefined);
    setHits(
      await gateway("post", "/ragstore/rags/{id}/query", {
        path: { id: base.id },
        body: { query: question, maxResults: Number(maxResults), minScore: Number(minScore) } as never,
      }),
    );
  }
  return (
    <div class="scroll stack">
      <form class="box" onSubmit={(event) => void run(search, event)}>
        <label class="field">
          <span>{say.question}</span>
          <textarea class="question" maxLength={MAX_QUESTION} value={question} onInput={(event) => setQuestion(event.currentTarget.value)} />
        </label>
        <div class="form-row">
          <label class="field">
            <span>{words.number}</span>
            <input type="number" min={1} max={1000} value={maxResults} onInput={(event) => setMaxResults(event.currentTarget.value)} />
          </label>
          <label class="field">
            <span>{say.minScore}</span>
            <input type="number" min={0} max={1} step="any" value={minScore} onInput={(event) => setMinScore(event.currentTarget.value)} />
          </label>
          <button type="submit" class="primary" disabled={!question.trim() || isRunning}>
            {say.search}
          </button>
        </div>
      </form>
      {isRunning && <Bones />}
      {problem}
      {hits && <Outcome of={hits} id={base.id} />}
    </div>
  );
}

function Outcome({ of: { value, timing }, id }: { of: Hits; id: string }) {
  const { results } = value;
  if (results.length === 0) return <Empty of={say.noPassage} />;
  return (
    <section class="stack tight" aria-label={words.results}>
      <div class="spread">
        <h2>{say.passages(results.length)}</h2>
        <Timing of={timing} />
      </div>
      <p class="fine">{say.scale}</p>
      <ol class="passages">
        {results.map((hit, index) => (
          <li key={index} class="box">
            <div class="spread">
              <span class="row" title={say.scale}>
                <span>{scored(hit.score)}</span>
                <Bar share={hit.score} />
              </span>
              <Place id={id} metadata={hit.metadata as Record<string, unknown>} />
            </div>
            <p class="passage">
              <Stored value={hit.text} lines max={8000} />
            </p>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** The document of a passage, and the link to its place in it. Records of others have no document here. */
function Place({ id, metadata }: { id: string; metadata: Record<string, unknown> }) {
  const name = metadata["document_name"];
  const [start, end] = [metadata["char_start"], metadata["char_end"]];
  if (typeof name !== "string") return null;
  const address = link(["bases", id, "documents", name], { span: `${String(start)}-${String(end)}` });
  return (
    <a href={address}>
      {say.open}: <Stored value={name as unknown as Stored} max={200} />
    </a>
  );
}
