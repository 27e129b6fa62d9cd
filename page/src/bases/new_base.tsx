/** The form of a new base. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import { gateway } from "../api";
import { Loaded, useAttempts } from "../parts";
import { useResource } from "../resource";
import { go, link } from "../route";
import { gatewayRole, includes } from "../session";
import { words } from "../words";
import { versionOf } from "./calls";
import { ConfigurationForm, readSchema } from "./configuration_form";
import { faultsOf, useFirstFault } from "./form";
import type { Schema, Values } from "./schema";
import { say } from "./words";

export function NewBase() {
  const schema = useResource("schema", readSchema);
  return (
    <div class="screen">
      <div class="screen-head">
        <p class="crumbs">
          <a href={link(["bases"])}>{words.bases}</a>
        </p>
        <h1>{say.create}</h1>
      </div>
      <div class="screen-body scroll">
        <Loaded of={schema} draw={(found) => <Form schema={found} />} />
      </div>
    </div>
  );
}

function Form({ schema }: { schema: Schema }) {
  const [values, setValues] = useState<Values>({});
  const { isRunning, failure, problem, run } = useAttempts();
  useFirstFault(failure);
  const may = includes(gatewayRole.value, "admin");
  async function create(): Promise<void> {
    const { resource } = await gateway("post", "/ragstore/rags", { body: values as never });
    go(link(["bases", versionOf(resource).id]));
  }
  return (
    <form class="stack" onSubmit={(event) => void run(create, event)}>
      <ConfigurationForm schema={schema} values={values} set={setValues} faults={faultsOf(failure)} isDisabled={!may || isRunning} />
      {problem}
      <p class="row">
        <button type="submit" class="primary" disabled={!may || isRunning}>
          {say.createAction}
        </button>
        {!may && <span class="fine">{words.needsRole("admin")}</span>}
      </p>
    </form>
  );
}
