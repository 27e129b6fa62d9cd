/** The check of the ledger's chain, also with a head that was recorded elsewhere, and the export of the ledger. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import { download, gateway } from "../api";
import { Table, useAttempts, WithCode } from "../parts";
import type { components } from "../schema/gateway";
import { Stored, type Marked } from "../stored";
import { formatted } from "../words";
import { say } from "./words";

type Result = Marked<components["schemas"]["AuditVerification"]>;

/** The gateway ends a verification after 300 s itself. */
const SECONDS = 330;

export function Verification() {
  const [head, setHead] = useState("");
  const [result, setResult] = useState<Result>();
  const { isRunning, problem, run } = useAttempts();
  async function verify(): Promise<void> {
    setResult(undefined);
    setResult((await gateway("post", "/audit/verification", { body: { head: head.trim() }, seconds: SECONDS })).value);
  }
  return (
    <div class="scroll stack">
      <form class="box" onSubmit={(event) => void run(verify, event)}>
        <p>{say.verifyHint}</p>
        <label class="field">
          <span>{say.head}</span>
          <input class="mono" value={head} pattern="\s*([0-9]{1,18}:[0-9a-f]{64})?\s*" spellcheck={false} onInput={(event) => setHead(event.currentTarget.value)} />
        </label>
        <p class="row">
          <button type="submit" class="primary" disabled={isRunning}>
            {say.verify}
          </button>
          <button type="button" disabled={isRunning} onClick={() => void run(() => download("/audit/export", "audit.jsonl"))}>
            {say.export}
          </button>
          <span role="status">{isRunning && say.running}</span>
        </p>
        <p class="fine">
          <WithCode of={say.exportHint} />
        </p>
      </form>
      {problem}
      {result && <Outcome of={result} />}
    </div>
  );
}

function Outcome({ of: { intact, entries, head, problems } }: { of: Result }) {
  return (
    <section class="box" aria-label={say.result}>
      <h2>{say.result}</h2>
      <p class={intact ? "state-ok" : "state-bad"} role="status">
        {intact ? say.intact(entries) : say.notIntact(entries)}
      </p>
      <p>{say.recordHead}</p>
      <p class="mono">
        <Stored value={head} />
      </p>
      {problems.length > 0 && (
        <Table label={say.problems} titles={[say.entry, say.problem]}>
          {problems.map(({ sequence, message }, index) => (
            <tr key={index}>
              <th scope="row">{formatted(sequence)}</th>
              <td>
                <Stored value={message} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}
