/** The panel of a document: its text, its metadata, and the documents nearest to it. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Fragment, h, type Child } from "../jsx";
import { store } from "../api";
import { Confirm, Empty, FormEnd, Loaded, RoleButton, useAttempts } from "../parts";
import { useResource } from "../resource";
import { amend, route } from "../route";
import type { components } from "../schema/store";
import { storeRole } from "../session";
import { mark, raw, Stored, StoredText } from "../stored";
import { formatted, words } from "../words";
import type { Document } from "./documents";
import { Matches, type Match } from "./matches";
import { Pairs } from "./metadata";
import { parsedObject } from "./where";

const NEAREST = 8;
/** Longer texts are cut in the panel. */
const SHOWN_CHARACTERS = 2_000_000;

interface BesideProperties {
  collection: Stored;
  /** The id of a list, which gets the focus when the panel is closed. */
  list?: string;
  kind?: string;
  deleted: () => void;
  children?: Child;
}

/** A list, and beside it the document that the address names. */
export function WithDocument({ collection, list = "", kind = "list", deleted, children }: BesideProperties) {
  const id = route.value.query.get("id");
  function close(): void {
    amend({ id: undefined });
    document.getElementById(list)?.focus();
  }
  return (
    <div class="with-panel">
      <div class={kind}>{children}</div>
      {id !== null && (
        <DocumentPanel
          collection={collection}
          id={mark(id)}
          close={close}
          deleted={() => {
            close();
            deleted();
          }}
        />
      )}
    </div>
  );
}

interface Properties {
  collection: Stored;
  id: Stored;
  close: () => void;
  deleted: () => void;
}

function DocumentPanel({ collection, id, close, deleted }: Properties) {
  const panel = useRef<HTMLElement>(null);
  const found = useResource(raw(id), async (signal) => ({ document: await readDocument(collection, id, signal) }));
  const [asks, setAsks] = useState<"" | "edit" | "delete">("");
  useEffect(() => setAsks(""), [id]);
  // Esc closes the panel from anywhere, except from a dialog above it.
  useEffect(() => {
    function onKey(event: KeyboardEvent): void {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) close();
    }
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  const document_ = found.data?.document;
  return (
    <aside ref={panel} class="panel" aria-label={words.panel} tabIndex={-1}>
      <div class="panel-head">
        <h2 class="mono">
          <Stored value={id} max={600} />
        </h2>
        <button type="button" class="bare" onClick={close} aria-label={words.close}>
          ×
        </button>
      </div>
      <Loaded
        of={found}
        draw={({ document: shown }) =>
          shown ? (
            <div class="stack">
              <DocumentText of={shown} />
              <section class="stack tight" aria-label={words.metadata}>
                <h3>{words.metadata}</h3>
                {asks === "edit" ? (
                  <MetadataEditor
                    collection={collection}
                    document={shown}
                    close={() => setAsks("")}
                    saved={() => {
                      setAsks("");
                      found.reload();
                    }}
                  />
                ) : (
                  <>
                    <Pairs of={shown.metadata} />
                    <p class="row">
                      <RoleButton
                        role={storeRole.value}
                        needs="writer"
                        label={words.edit}
                        onClick={() => setAsks("edit")}
                      />
                      <RoleButton
                        role={storeRole.value}
                        needs="writer"
                        label={words.deleteDocument}
                        kind="danger"
                        onClick={() => setAsks("delete")}
                      />
                    </p>
                  </>
                )}
              </section>
              <Nearest collection={collection} of={shown} />
            </div>
          ) : (
            <Empty of={words.noDocument} />
          )
        }
      />
      {asks === "delete" && document_ && (
        <Confirm
          title={words.deleteDocument}
          question={words.deleteDocumentQuestion}
          action={words.delete}
          close={() => setAsks("")}
          run={async () => {
            await store("post", "/collections/{collection_name}/documents/delete", {
              path: { collection_name: collection },
              body: { ids: [raw(id)] },
            });
            deleted();
          }}
        />
      )}
    </aside>
  );
}

/** A document with its embedding; undefined if it does not exist. An id in a path could be `..`. */
export async function readDocument(
  collection: Stored,
  id: Stored,
  signal?: AbortSignal,
): Promise<Document | undefined> {
  const { value } = await store("post", "/collections/{collection_name}/documents/filter", {
    path: { collection_name: collection },
    body: { ids: [raw(id)], limit: 1, total: false, include: ["embedding"] } as unknown as components["schemas"]["DocumentFilter"],
    ...(signal && { signal }),
  });
  return value.documents[0];
}

function DocumentText({ of }: { of: Document }) {
  const length = raw(of.text).length;
  return (
    <section class="stack tight" aria-label={words.text}>
      <h3>{words.text}</h3>
      {length === 0 ? <p class="fine">{words.noText}</p> : <StoredText value={of.text} max={SHOWN_CHARACTERS} />}
      {length > SHOWN_CHARACTERS && <p class="fine">{words.textCut(formatted(SHOWN_CHARACTERS), formatted(length))}</p>}
    </section>
  );
}

function Nearest({ collection, of }: { collection: Stored; of: Document }) {
  const nearest = useResource(raw(of.id), async (signal) => {
    const { value } = await store("post", "/collections/{collection_name}/query", {
      path: { collection_name: collection },
      body: { query_embedding: of.embedding ?? [], top_k: NEAREST + 1 } as unknown as components["schemas"]["QueryRequest"],
      signal,
    });
    return value.results.filter((each) => raw(each.id) !== raw(of.id)).slice(0, NEAREST) as Match[];
  });
  return (
    <section class="stack tight" aria-label={words.nearest}>
      <h3>{words.nearest}</h3>
      <Loaded
        of={nearest}
        rows={3}
        draw={(matches) =>
          matches.length === 0 ? (
            <p class="fine">{words.noNearest}</p>
          ) : (
            <Matches of={matches} open={(match) => amend({ id: match.id })} />
          )
        }
      />
    </section>
  );
}

/** The metadata as JSON, which replaces the stored one. */
function MetadataEditor({
  collection,
  document: edited,
  close,
  saved,
}: {
  collection: Stored;
  document: Document;
  close: () => void;
  saved: () => void;
}) {
  return (
    <MetadataForm
      metadata={edited.metadata}
      hint={words.editHint}
      close={close}
      save={async (metadata) => {
        await store("patch", "/collections/{collection_name}/documents", {
          path: { collection_name: collection },
          body: {
            documents: [{ id: raw(edited.id), metadata }],
            mode: "replace",
          } as unknown as components["schemas"]["DocumentUpdates"],
        });
        saved();
      }}
    />
  );
}

/** A form for metadata as JSON. */
export function MetadataForm({
  metadata,
  hint,
  save,
  close,
}: {
  metadata: object;
  hint: string;
  save: (metadata: object) => Promise<void>;
  close: () => void;
}) {
  const [text, setText] = useState(JSON.stringify(metadata, null, 2));
  const attempts = useAttempts();
  return (
    <form class="stack tight" onSubmit={(event) => void attempts.run(async () => save(parsedObject(text, words.notMetadata)), event)}>
      <textarea
        aria-label={words.metadata}
        spellcheck={false}
        rows={8}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <p class="fine">{hint}</p>
      <FormEnd action={words.save} of={attempts} close={close} />
    </form>
  );
}
