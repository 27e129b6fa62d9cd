/** The runs of a question set, and the outcomes of one of them. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import { gateway } from "../api";
import { momentOf, word } from "../bases/calls";
import { Empty, Loaded, RoleButton, Table, useAttempts } from "../parts";
import { usePolling, useResource } from "../resource";
import { link } from "../route";
import type { components } from "../schema/gateway";
import { gatewayRole } from "../session";
import { raw, Stored, type Marked } from "../stored";
import { formatted, scored, words } from "../words";
import { say } from "./words";

type Run = Marked<components["schemas"]["QuestionRun"]>;
type Change = keyof typeof say.changes;

const KEPT = 100;
const CUTOFFS = [1, 3, 5, 10];

interface Properties {
  id: string;
  /** The run whose outcomes are shown. */
  run: string | undefined;
  /** Whether the set has unsaved changes. */
  isChanged: boolean;
}

export function Runs({ id, run, isChanged }: Properties) {
  const attempts = useAttempts();
  const [k, setK] = useState(10);
  const runs = useResource("runs", async (signal) => (await gateway("get", "/ragstore/questions/{id}/runs", { path: { id }, query: { limit: KEPT }, signal })).value.runs);
  const { data = [], reload } = runs;
  const isRunning = data.some((each) => each.status === "running");
  usePolling(isRunning, reload);
  async function change(call: () => Promise<unknown>): Promise<void> {
    await attempts.run(call);
    reload();
  }
  const start = (): void => void change(() => gateway("post", "/ragstore/questions/{id}/runs", { path: { id } }));
  const cancel = ({ runId }: Run): void => void change(() => gateway("delete", "/ragstore/questions/{id}/runs/{run_id}", { path: { id, run_id: runId } }));
  return (
    <div class="stack">
      <p class="fine">{say.runHint}</p>
      <div class="form-row">
        <RoleButton role={gatewayRole.value} needs="writer" kind="primary" label={say.run} onClick={start} />
        <label class="row">
          {say.cutoff}
          <select value={k} onChange={(event) => setK(Number(event.currentTarget.value))}>
            {CUTOFFS.map((each) => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
          </select>
        </label>
      </div>
      {isChanged && <p class="fine">{say.unsaved}</p>}
      {attempts.problem}
      <Loaded of={runs} draw={(all) => (all.length === 0 ? <Empty of={[say.noRuns, ""]} /> : <Figures id={id} of={all} k={k} current={run} cancel={cancel} />)} />
      {run !== undefined && <Outcomes key={run} id={id} run={run} state={data.find((each) => raw(each.runId) === run)?.status} />}
    </div>
  );
}

const NUMBERS = [say.setVersion, say.baseVersion, words.questions, say.mrr, say.recall, say.ndcg, say.won, say.lost];

function Figures({ id, of, k, current, cancel }: { id: string; of: Run[]; k: number; current: string | undefined; cancel: (run: Run) => void }) {
  return (
    <Table label={say.runs} titles={[say.started, say.state, ...NUMBERS]} numbers={NUMBERS}>
      {of.map((run) => {
        const before = of.find((each) => run.comparedWith !== undefined && raw(each.runId) === raw(run.comparedWith));
        const [now, then] = [run, before].map((each) => figuresOf(each, k));
        return (
          <tr key={raw(run.runId)}>
            <th scope="row">
              <a href={link(["questions", id, "runs", run.runId])} aria-current={raw(run.runId) === current ? "true" : undefined}>
                {momentOf(run.startedOn)}
              </a>
            </th>
            <td>
              <span class={STATES[run.status]}>{run.status}</span> <Stored value={word(raw(run.reason).replaceAll("_", " "))} />
              {run.status === "running" && <Progress of={run} cancel={() => cancel(run)} />}
            </td>
            {[run.setVersion, run.baseVersion, run.questions].map((each, index) => (
              <td key={index} class="n">
                {formatted(each)}
              </td>
            ))}
            {[0, 1, 2].map((at) => (
              <td key={at} class="n">
                {now?.[at] === undefined ? words.notCounted : scored(now[at])} {differenceOf(now?.[at], then?.[at])}
              </td>
            ))}
            {[run.won, run.lost].map((each, index) => (
              <td key={index} class="n">
                {run.comparedWith === undefined ? words.notCounted : formatted(each)}
              </td>
            ))}
          </tr>
        );
      })}
    </Table>
  );
}

const STATES: Record<Run["status"], string> = { completed: "state-ok", failed: "state-bad", cancelled: "", interrupted: "state-bad", running: "" };

function Progress({ of: { searched, questions }, cancel }: { of: Run; cancel: () => void }) {
  return (
    <span class="row">
      <progress max={questions} value={searched} aria-label={say.progress} />
      <span class="fine">{say.searched(searched, questions)}</span>
      <RoleButton role={gatewayRole.value} needs="writer" label={say.cancelRun} onClick={cancel} />
    </span>
  );
}

/** MRR, recall and nDCG. */
function figuresOf(run: Run | undefined, k: number): number[] {
  const { figures } = run ?? {};
  const at = figures?.cutoffs.find((each) => each.k === k);
  return figures && at ? [figures.mrr, at.recall, at.ndcg] : [];
}

function differenceOf(now: number | undefined, then: number | undefined) {
  if (now === undefined || then === undefined) return null;
  return <span class="fine">{`${now < then ? "−" : "+"}${scored(Math.abs(now - then))}`}</span>;
}

/** The outcomes of the questions of a run. `state` is its state in the list: when it changes, they are read again. */
function Outcomes({ id, run, state }: { id: string; run: string; state: string | undefined }) {
  const [shown, setShown] = useState<Change>("");
  const found = useResource(`${state}`, async (signal) => (await gateway("get", "/ragstore/questions/{id}/runs/{run_id}", { path: { id, run_id: run }, signal })).value);
  const numbers = [say.rank, say.rankBefore, "recall@10", "nDCG@10"];
  return (
    <section class="stack tight" aria-label={say.outcomes}>
      <h2>{say.outcomes}</h2>
      <Loaded
        of={found}
        draw={({ outcomes }) => (
          <div class="stack tight">
            <div class="row" role="group" aria-label={say.change}>
              {(Object.keys(say.changes) as Change[]).map((each) => (
                <button key={each} type="button" aria-pressed={each === shown} onClick={() => setShown(each)}>
                  {say.changes[each]} {formatted(outcomes.filter(({ change }) => !each || change === each).length)}
                </button>
              ))}
            </div>
            <Table label={say.outcomes} titles={[say.question, say.change, ...numbers]} numbers={numbers}>
              {outcomes
                .filter(({ change }) => !shown || change === shown)
                .map((each, index) => (
                  <tr key={index}>
                    <td>
                      <Stored value={each.question} max={500} />
                    </td>
                    <td>{say.changes[each.change]}</td>
                    <td class="n">{each.rank ?? say.notFound}</td>
                    <td class="n">{each.change === "new" ? words.notCounted : (each.rankBefore ?? say.notFound)}</td>
                    <td class="n">{scored(each.recall)}</td>
                    <td class="n">{scored(each.ndcg)}</td>
                  </tr>
                ))}
            </Table>
          </div>
        )}
      />
    </section>
  );
}
