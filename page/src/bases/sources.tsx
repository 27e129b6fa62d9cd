/** The sources of a base: forms, runs, previews, purge. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import { gateway } from "../api";
import { Bones, Confirm, Empty, FormEnd, Loaded, RoleButton, Table, useAttempts } from "../parts";
import { useResource } from "../resource";
import type { components } from "../schema/gateway";
import { gatewayRole } from "../session";
import { mark, plain, raw, Stored, type Marked } from "../stored";
import { formatted, words } from "../words";
import type { Base } from "./calls";
import { readSchema } from "./configuration_form";
import { Fields, faultsOf, useFirstFault } from "./form";
import type { Schema, Values } from "./schema";
import { Runs } from "./source_runs";
import { say } from "./words";

type Source = Marked<components["schemas"]["Source"]>;
type Preview = Marked<components["schemas"]["Preview"]>;

const PREVIEW_SECONDS = 70;

export function Sources({ base, changed }: { base: Base; changed: () => void }) {
  const schema = useResource("schema", readSchema);
  const [isNew, setNew] = useState(false);
  const sources = base.body.sources ?? [];
  return (
    <div class="scroll stack">
      <p class="row">
        <RoleButton role={gatewayRole.value} needs="admin" label={say.addSource} onClick={() => setNew(true)} />
      </p>
      {isNew && (
        <section class="box" aria-label={say.addSource}>
          <Loaded of={schema} draw={(found) => <SourceForm base={base} schema={found} at={sources.length} saved={changed} close={() => setNew(false)} />} />
        </section>
      )}
      {sources.length === 0 && !isNew && <Empty of={say.noSources} />}
      {sources.map((source, at) => (
        <OneSource key={raw(source.name)} base={base} source={source} at={at} schema={schema.data} changed={changed} />
      ))}
    </div>
  );
}

interface OneProperties {
  base: Base;
  source: Source;
  at: number;
  schema: Schema | undefined;
  changed: () => void;
}

function OneSource({ base, source, at, schema, changed }: OneProperties) {
  const [asks, setAsks] = useState<"" | "edit" | "purge" | "remove">("");
  const [round, setRound] = useState(0);
  const attempts = useAttempts();
  const [preview, setPreview] = useState<"running" | Preview>();
  const path = { id: base.id, source: source.name };
  async function run(): Promise<void> {
    await gateway("post", "/ragstore/rags/{id}/sources/{source}/run", { path });
    setRound((last) => last + 1);
  }
  async function readPreview(): Promise<void> {
    setPreview("running");
    try {
      setPreview((await gateway("post", "/ragstore/rags/{id}/sources/{source}/preview", { path, seconds: PREVIEW_SECONDS })).value);
    } catch (error) {
      setPreview(undefined);
      throw error;
    }
  }
  const role = gatewayRole.value;
  return (
    <section class="box" aria-label={say.source(plain(source.name))}>
      <div class="spread">
        <h2>
          <Stored value={source.name} />
        </h2>
        <span class="fine">
          {source.type === "web" && source.web ? <Stored value={source.web.startUrl} max={200} /> : say.uploaded}
          {source.cron !== undefined && raw(source.cron) !== "" && " · "}
          {source.cron !== undefined && <Stored value={source.cron} />}
        </span>
      </div>
      {asks === "edit" ? (
        schema && <SourceForm base={base} schema={schema} at={at} saved={changed} close={() => setAsks("")} />
      ) : (
        <p class="row">
          <RoleButton role={role} needs="writer" label={say.runSource} onClick={() => void attempts.run(run)} />
          <RoleButton role={role} needs="writer" label={say.preview} onClick={() => void attempts.run(readPreview)} />
          <RoleButton role={role} needs="admin" label={say.edit} onClick={() => setAsks("edit")} />
          <RoleButton role={role} needs="writer" kind="danger" label={say.purge} onClick={() => setAsks("purge")} />
          <RoleButton role={role} needs="admin" kind="danger" label={words.remove} onClick={() => setAsks("remove")} />
        </p>
      )}
      {source.enabled === false && <p class="fine">{say.disabled}</p>}
      {attempts.problem}
      {preview === "running" && <Bones rows={3} />}
      {preview !== undefined && preview !== "running" && <PreviewOf pages={preview} />}
      <Runs key={round} base={base.id} source={source.name} />
      {asks === "purge" && (
        <Confirm
          title={say.purge}
          question={say.purgeQuestion}
          action={words.delete}
          name={source.name}
          close={() => setAsks("")}
          run={async () => {
            await gateway("delete", "/ragstore/rags/{id}/sources/{source}/documents", { path });
            setRound((last) => last + 1);
          }}
        />
      )}
      {asks === "remove" && (
        <Confirm
          title={words.remove}
          question={say.removeQuestion}
          action={words.remove}
          close={() => setAsks("")}
          run={async () => {
            await write(base, (base.body.sources ?? []).filter((_, index) => index !== at) as unknown[]);
            changed();
          }}
        />
      )}
    </section>
  );
}

/** Write a new version of a base with other sources. */
async function write(base: Base, sources: unknown[]): Promise<void> {
  const body = { ...base.body, sources } as never;
  await gateway("put", "/ragstore/rags/{id}", { path: { id: base.id }, query: { version: base.version }, body });
}

interface FormProperties {
  base: Base;
  schema: Schema;
  at: number;
  saved: () => void;
  close: () => void;
}

function SourceForm({ base, schema, at, saved, close }: FormProperties) {
  const sources = (base.body.sources ?? []) as unknown as Values[];
  const [values, setValues] = useState<Values>(sources[at] ?? { type: "web" });
  const attempts = useAttempts();
  useFirstFault(attempts.failure);
  async function save(): Promise<void> {
    const next = [...sources];
    next[at] = values;
    await write(base, next);
    saved();
    close();
  }
  return (
    <form class="stack" onSubmit={(event) => void attempts.run(save, event)}>
      <p class="fine">{say.unsavedSource}</p>
      <Fields
        schema={schema.$defs?.["Source"] ?? {}}
        root={schema}
        values={values}
        set={(next) => setValues(withoutOther(next))}
        faults={faultsOf(attempts.failure)}
        path={`$.sources[${at}]`}
        isDisabled={attempts.isRunning}
      />
      <FormEnd action={words.save} of={attempts} close={close} />
    </form>
  );
}

/** A source of one type has no fields of the other one. */
function withoutOther(values: Values): Values {
  const next = { ...values };
  delete next[values["type"] === "upload" ? "web" : "upload"];
  return next;
}

function PreviewOf({ pages: { pages, complete, reason } }: { pages: Preview }) {
  return (
    <section class="stack tight" aria-label={say.preview}>
      <h3>{say.previewTitle}</h3>
      <p class="fine">
        {say.previewed(pages.length)}
        {!complete && ", "}
        {!complete && <Stored value={mark(say.cutShort(raw(reason)))} />}
      </p>
      <Table kind="preview" label={say.preview} titles={[say.address, say.outcome, say.reason, say.depth]} numbers={[say.depth]}>
        {pages.map((page, index) => (
          <tr key={index}>
            <th scope="row">
              <Stored value={page.url} max={500} />
              <span class="fine">
                {" "}
                <Stored value={page.title} max={200} />
              </span>
            </th>
            <td>{page.outcome}</td>
            <td>
              <Stored value={page.reason} max={100} />
            </td>
            <td class="n">{formatted(page.depth)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
