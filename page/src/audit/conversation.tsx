/** A conversation: its steps, what was retrieved for each, and its deletion. */
import { useState } from "preact/hooks";
import { Fragment, h } from "../jsx";
import { gateway } from "../api";
import { momentOf } from "../bases/calls";
import { Confirm, Empty, Loaded } from "../parts";
import { useResource } from "../resource";
import { go, link } from "../route";
import type { components } from "../schema/gateway";
import { mark, raw, Stored, type Marked } from "../stored";
import { formatted, words } from "../words";
import { useNames, type Names } from "./names";
import { Traces } from "./traces";
import { say } from "./words";

const PAGE = 50;

export function Conversation({ id, isAuditor }: { id: string; isAuditor: boolean }) {
  const [page, setPage] = useState(0);
  const [isDeleting, setDeleting] = useState(false);
  const path = { conversation_id: id };
  const found = useResource(`steps ${page}`, async (signal) => {
    const { value } = await gateway("get", "/conversations/{conversation_id}", { path, query: { index: page, limit: PAGE }, signal });
    return value.steps;
  });
  async function remove(): Promise<void> {
    await gateway("delete", "/conversations/{conversation_id}", { path });
    go(link(["audit", "conversations"]));
  }
  return (
    <div class="scroll stack">
      <p class="crumbs">
        <a href={link(["audit", "conversations"])}>{say.tabs.conversations}</a>
      </p>
      <div class="spread">
        <h2>
          <Stored value={mark(id)} max={200} />
        </h2>
        <div class="row">
          {isAuditor && <a href={link(["audit", "entries"], { conversation: id })}>{say.entriesOf}</a>}
          <button type="button" class="danger" disabled={!found.data} onClick={() => setDeleting(true)}>
            {say.delete}
          </button>
        </div>
      </div>
      <Loaded
        of={found}
        draw={(steps) => (
          <div class="stack">
            {steps.length === 0 && <Empty of={say.noStep} />}
            <Steps of={steps} />
            <p class="row">
              <button type="button" disabled={page === 0} onClick={() => setPage(page - 1)}>
                {say.earlierSteps}
              </button>
              <button type="button" disabled={steps.length < PAGE} onClick={() => setPage(page + 1)}>
                {say.laterSteps}
              </button>
            </p>
          </div>
        )}
      />
      {isDeleting && <Confirm title={say.delete} question={isAuditor ? say.deleteAll : say.deleteOwn} action={words.delete} run={remove} close={() => setDeleting(false)} />}
    </div>
  );
}

type Step = Marked<components["schemas"]["ConversationStep"]>;

function Steps({ of }: { of: Step[] }) {
  const names = useNames(of.map((each) => each.data));
  return (
    <>
      {of.map((step) => (
        <StepView key={raw(step.id)} of={step} names={names} />
      ))}
    </>
  );
}

function StepView({ of: step, names }: { of: Step; names: Names }) {
  return (
    <article class="box" aria-label={momentOf(step.createdOn)}>
      <p class="facts">
        <span>{momentOf(step.createdOn)}</span>
        <span>
          {say.fields.assistant} <Stored value={step.assistant} max={200} /> {step.assistantVersion > 0 && say.version(formatted(step.assistantVersion))}
        </span>
        {raw(step.key) && (
          <span>
            {words.key} <Stored value={step.key} max={200} />
          </span>
        )}
        <span>
          {words.requestId}{" "}
          <code>
            <Stored value={step.requestId} max={200} />
          </code>
        </span>
      </p>
      <Traces of={step.data} names={names} />
    </article>
  );
}
