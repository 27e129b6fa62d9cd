/** The settings of a collection: metadata, index, deletion. */
import { useEffect, useState } from "preact/hooks";
import { Fragment, h } from "../jsx";
import { store } from "../api";
import { asFailure, Failure } from "../failure";
import { Confirm, Problem, RoleButton } from "../parts";
import { go, link } from "../route";
import type { components } from "../schema/store";
import { storeRole } from "../session";
import { Stored, type Marked } from "../stored";
import { formatted, words } from "../words";
import type { Collection } from "./list";
import { Pairs } from "./metadata";
import { MetadataForm } from "./panel";

type Rebuild = Marked<components["schemas"]["Rebuild"]>;

const POLL_MILLISECONDS = 1000;

export function Settings({ collection, changed }: { collection: Collection; changed: () => void }) {
  const [asks, setAsks] = useState<"" | "metadata" | "empty" | "delete">("");
  const path = { collection_name: collection.name };
  const count = collection.count === null ? words.allItsDocuments : words.countLabel(collection.count);
  return (
    <div class="scroll stack">
      <section class="box" aria-labelledby="settings-metadata">
        <h2 id="settings-metadata">{words.metadata}</h2>
        {asks === "metadata" ? (
          <MetadataForm
            metadata={collection.metadata}
            hint=""
            close={() => setAsks("")}
            save={async (metadata) => {
              await store("put", "/collections/{collection_name}/metadata", {
                path,
                body: { metadata } as unknown as components["schemas"]["MetadataUpdate"],
              });
              setAsks("");
              changed();
            }}
          />
        ) : (
          <>
            <Pairs of={collection.metadata} />
            <p class="row">
              <RoleButton
                role={storeRole.value}
                needs="writer"
                label={words.edit}
                onClick={() => setAsks("metadata")}
              />
            </p>
          </>
        )}
      </section>
      <Index collection={collection} />
      <section class="box" aria-labelledby="settings-delete">
        <h2 id="settings-delete">{words.delete}</h2>
        <p class="row">
          <RoleButton
            role={storeRole.value}
            needs="writer"
            kind="danger"
            label={words.emptyCollection}
            onClick={() => setAsks("empty")}
          />
          <RoleButton
            role={storeRole.value}
            needs="admin"
            kind="danger"
            label={words.deleteCollection}
            onClick={() => setAsks("delete")}
          />
        </p>
      </section>
      {asks === "empty" && (
        <Confirm
          title={words.emptyCollection}
          question={words.emptyQuestion(count)}
          action={words.delete}
          name={collection.name}
          close={() => setAsks("")}
          run={async () => {
            await store("delete", "/collections/{collection_name}/documents/all", { path });
            changed();
          }}
        />
      )}
      {asks === "delete" && (
        <Confirm
          title={words.deleteCollection}
          question={words.deleteCollectionQuestion(count)}
          action={words.delete}
          name={collection.name}
          close={() => setAsks("")}
          run={async () => {
            await store("delete", "/collections/{collection_name}", { path });
            go(link(["collections"]));
          }}
        />
      )}
    </div>
  );
}

function Index({ collection }: { collection: Collection }) {
  const [rebuild, setRebuild] = useState<Rebuild>();
  const [failure, setFailure] = useState<Failure>();
  const [round, setRound] = useState(0);
  const path = { collection_name: collection.name };
  useEffect(() => {
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    store("get", "/collections/{collection_name}/rebuild", { path, signal: controller.signal })
      .then(({ value }) => {
        setRebuild(value);
        if (value.status === "running") timer = setTimeout(() => setRound((last) => last + 1), POLL_MILLISECONDS);
      })
      .catch((error: unknown) => {
        const found = asFailure(error);
        // Without a rebuild there is none to show.
        if (!controller.signal.aborted && found.status !== 404) setFailure(found);
      });
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [round]);
  async function start(): Promise<void> {
    setFailure(undefined);
    try {
      setRebuild((await store("post", "/collections/{collection_name}/rebuild", { path })).value);
      setRound((last) => last + 1);
    } catch (error) {
      setFailure(asFailure(error));
    }
  }
  const { hnsw } = collection;
  return (
    <section class="box" aria-labelledby="settings-index">
      <h2 id="settings-index">{words.index}</h2>
      <dl class="pairs">
        <dt>{words.distance}</dt>
        <dd>{collection.distance}</dd>
        <dt>{words.dimension}</dt>
        <dd>{collection.dimension === null ? words.notCounted : formatted(collection.dimension)}</dd>
        {(["ef_construction", "max_neighbors", "ef_search"] as const).flatMap((name) => [
          <dt key={`t${name}`} class="mono">
            {name}
          </dt>,
          <dd key={`d${name}`}>{hnsw?.[name] ?? words.defaultValue}</dd>,
        ])}
      </dl>
      {rebuild ? <RebuildState of={rebuild} /> : <p class="fine">{words.neverRebuilt}</p>}
      {failure && <Problem failure={failure} />}
      <p class="fine">{words.rebuildHint}</p>
      <p class="row">
        <RoleButton role={storeRole.value} needs="admin" label={words.rebuild} onClick={() => void start()} />
      </p>
    </section>
  );
}

function RebuildState({ of }: { of: Rebuild }) {
  return (
    <div class="stack tight" role="status">
      <p>
        {words.rebuildState[of.status] ?? of.status}: {formatted(of.done)} / {formatted(of.total)}
      </p>
      {of.status === "running" && (
        <progress max={Math.max(of.total, 1)} value={of.done} aria-label={words.rebuild} />
      )}
      {of.before && (
        <p class="fine">
          {words.rebuildBefore}: {words.rebuildChecked(of.before.lost, of.before.sampled)}
        </p>
      )}
      {of.after && (
        <p class="fine">
          {words.rebuildAfter}: {words.rebuildChecked(of.after.lost, of.after.sampled)}
        </p>
      )}
      {of.error && (
        <p class="message">
          <Stored value={of.error.detail} />
        </p>
      )}
    </div>
  );
}
