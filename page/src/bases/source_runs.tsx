/** The history of a source. It is read again only while a run is in progress and the tab is visible. */
import { h } from "../jsx";
import { gateway } from "../api";
import { Loaded, RoleButton, Table, useAttempts } from "../parts";
import { usePolling, useResource } from "../resource";
import type { components } from "../schema/gateway";
import { gatewayRole } from "../session";
import { raw, Stored, type Marked } from "../stored";
import { formatted, words } from "../words";
import { momentOf } from "./calls";
import { say } from "./words";

type Run = Marked<components["schemas"]["SourceRun"]>;

const SHOWN = 20;
const COUNTS = ["added", "changed", "unchanged", "missing", "removed", "failed", "skipped"] as const;

export function Runs({ base, source }: { base: string; source: Stored }) {
  const path = { id: base, source };
  const runs = useResource("runs", async (signal) => {
    const options = { path, query: { limit: SHOWN }, signal };
    return (await gateway("get", "/ragstore/rags/{id}/sources/{source}/runs", options)).value;
  });
  const { data, reload } = runs;
  const isRunning = data?.runs.some((each) => each.status === "running") ?? false;
  const attempts = useAttempts();
  usePolling(isRunning, reload);
  async function cancel(run: Run): Promise<void> {
    const options = { path: { ...path, run_id: run.runId } };
    await attempts.run(() => gateway("delete", "/ragstore/rags/{id}/sources/{source}/runs/{run_id}", options));
    reload();
  }
  return (
    <section class="stack tight" aria-label={say.history}>
      <h3>{say.history}</h3>
      {attempts.problem}
      <Loaded
        of={runs}
        rows={2}
        draw={({ runs: rows }) => (rows.length === 0 ? <p class="fine">{say.neverRun}</p> : <Rows of={rows} cancel={(run) => void cancel(run)} />)}
      />
    </section>
  );
}

function Rows({ of, cancel }: { of: Run[]; cancel: (run: Run) => void }) {
  return (
    <Table label={say.history} titles={[say.started, say.state, say.counts, say.chunks, words.cancel]} numbers={[say.chunks]}>
      {of.map((run) => (
        <tr key={raw(run.runId)}>
          <th scope="row">{momentOf(run.startedOn)}</th>
          <td>
            <span class={run.status === "completed" ? "state-ok" : run.status === "failed" ? "state-bad" : ""}>{run.status}</span>{" "}
            <Stored value={run.reason} max={200} />
          </td>
          <td>
            {COUNTS.filter((name) => run[name] > 0)
              .map((name) => `${formatted(run[name])} ${name}`)
              .join(", ")}
          </td>
          <td class="n">{formatted(run.chunks)}</td>
          <td>{run.status === "running" && <RoleButton role={gatewayRole.value} needs="writer" label={say.cancelRun} onClick={() => cancel(run)} />}</td>
        </tr>
      ))}
    </Table>
  );
}
