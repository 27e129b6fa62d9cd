/** The settings of a base: the form, the changes with their price before a save, a conflict, the deletion. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import { gateway } from "../api";
import type { Failure } from "../failure";
import { Confirm, Loaded, RoleButton, useAttempts } from "../parts";
import { useResource } from "../resource";
import { go, link } from "../route";
import { gatewayRole, includes } from "../session";
import { words } from "../words";
import { readBase, readStates, totalOf, type Base, type Configuration } from "./calls";
import { ChangesTable, changesOf, priceOf } from "./changes";
import { ConfigurationForm, readSchema } from "./configuration_form";
import { faultsOf, useFirstFault } from "./form";
import type { Schema, Values } from "./schema";
import { say } from "./words";

export function Settings({ base, changed }: { base: Base; changed: () => void }) {
  const loaded = useResource("settings", async (signal) => {
    const [schema, states] = await Promise.all([readSchema(signal), readStates(base.id, signal)]);
    return { schema, documents: totalOf(states), complete: states.completed };
  });
  return (
    <div class="scroll stack">
      <Loaded
        of={loaded}
        draw={({ schema, documents, complete }) => (
          <div class="stack">
            <Editor base={base} schema={schema} documents={complete} changed={changed} />
            <Deletion base={base} documents={documents} />
          </div>
        )}
      />
    </div>
  );
}

interface EditorProperties {
  base: Base;
  schema: Schema;
  /** Number of documents that a change would embed again. */
  documents: number;
  changed: () => void;
}

function Editor({ base, schema, documents, changed }: EditorProperties) {
  const [values, setValues] = useState<Values>(base.body as unknown as Values);
  const [isReviewed, setReviewed] = useState(false);
  const [theirs, setTheirs] = useState<Base>();
  const { isRunning, failure, problem, run } = useAttempts();
  const may = includes(gatewayRole.value, "admin");
  const changes = changesOf(base.body, values);
  useFirstFault(failure);

  async function save(version: number): Promise<void> {
    try {
      await gateway("put", "/ragstore/rags/{id}", { path: { id: base.id }, query: { version }, body: values as never });
      changed();
    } catch (error) {
      if ((error as Failure).code !== "version_conflict") {
        setReviewed(false);
        throw error;
      }
      const theirs = await readBase(base.id, undefined).catch(() => undefined);
      if (!theirs) throw error;
      setTheirs(theirs);
    }
  }

  if (theirs) {
    const three = changesOf(base.body, theirs.body, values);
    return (
      <section class="box" aria-labelledby="conflict">
        <h2 id="conflict">{say.conflict[0]}</h2>
        <p role="alert">{say.conflict[1]}</p>
        <ChangesTable of={three} titles={[say.theirs(base.version), say.theirs(theirs.version), say.yours]} />
        <p>{priceOf(changesOf(theirs.body, values), theirs.body, documents)}</p>
        {problem}
        <p class="row">
          <button type="button" class="primary" disabled={isRunning} onClick={() => void run(() => save(theirs.version))}>
            {say.keepMine}
          </button>
          <button type="button" onClick={changed}>
            {say.takeTheirs}
          </button>
        </p>
      </section>
    );
  }
  if (isReviewed) {
    return (
      <section class="box" aria-labelledby="changes">
        <h2 id="changes">{say.changes}</h2>
        <ChangesTable of={changes} titles={[say.before, say.after]} />
        <p role="status">{priceOf(changes, base.body as Configuration, documents)}</p>
        <p class="row">
          <button type="button" class="primary" disabled={isRunning} onClick={() => void run(() => save(base.version))}>
            {say.saveAs(base.version + 1)}
          </button>
          <button type="button" onClick={() => setReviewed(false)}>
            {say.back}
          </button>
        </p>
      </section>
    );
  }
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        setReviewed(true);
      }}
    >
      <ConfigurationForm schema={schema} values={values} set={setValues} faults={faultsOf(failure)} isDisabled={!may} />
      {problem}
      <p class="row">
        <button type="submit" class="primary" disabled={!may || changes.length === 0}>
          {say.review}
        </button>
        <span class="fine">{may ? changes.length === 0 && say.noChanges : words.needsRole("admin")}</span>
      </p>
    </form>
  );
}

function Deletion({ base, documents }: { base: Base; documents: number }) {
  const [asks, setAsks] = useState(false);
  return (
    <section class="box" aria-labelledby="delete-base">
      <h2 id="delete-base">{words.delete}</h2>
      <p class="row">
        <RoleButton role={gatewayRole.value} needs="admin" kind="danger" label={say.deleteBase} onClick={() => setAsks(true)} />
      </p>
      {asks && (
        <Confirm
          title={say.deleteBase}
          question={say.deleteBaseQuestion(words.countLabel(documents), say.versionsCount(base.version))}
          action={words.delete}
          name={base.body.name}
          close={() => setAsks(false)}
          run={async () => {
            await gateway("delete", "/ragstore/rags/{id}", { path: { id: base.id }, query: { version: base.version, permanent: true } });
            go(link(["bases"]));
          }}
        />
      )}
    </section>
  );
}
