/** The documents of a base: the files that are sent, and the list with the state of each. */
import { useEffect, useState } from "preact/hooks";
import { h } from "../jsx";
import { gateway } from "../api";
import type { Column } from "../grid";
import { useRows } from "../pages";
import { Confirm } from "../parts";
import { usePolling } from "../resource";
import { amend, go, link, route } from "../route";
import { RowList } from "../row_list";
import { oneLine, raw, Stored } from "../stored";
import { formatted, size, words } from "../words";
import { totalOf, unfinishedOf, word, type Base, type Entry, type State, type States } from "./calls";
import { Sending } from "./sending";
import { uploadsOf } from "./uploads";
import { say } from "./words";

const PAGE = 50;
const TYPED_MILLISECONDS = 200;
const STATES = ["", "pending", "processing", "completed", "failed"] as const;

const COLUMNS: Column[] = [
  { title: words.name, kind: "c-name" },
  { title: say.state, kind: "c-state" },
  { title: say.chunks, kind: "c-number" },
  { title: say.size, kind: "c-number size" },
];

export function Documents({ base }: { base: Base }) {
  const { query } = route.value;
  const filter = query.get("name") ?? "";
  const state = query.get("state") ?? "";
  const uploads = uploadsOf(base.id);
  const changes = uploads.changes.value;
  const [read, setRead] = useState<{ states: States; at: number }>();
  const [asks, setAsks] = useState(false);
  const rows = useRows<Entry>(`${state} ${filter}`, PAGE, async (offset, _, signal) => {
    const at = Date.now();
    const { value } = await gateway("get", "/ragstore/rags/{id}/documents", {
      path: { id: base.id },
      query: { filter, index: offset / PAGE, limit: PAGE, ...(state && { status: state as State }) },
      signal,
    });
    setRead({ states: value.states as unknown as States, at });
    return { rows: value.documents, total: value.total };
  });

  const states = read?.states;
  const unfinished = states ? unfinishedOf(states) : 0;
  const isCurrent = !read || read.at >= uploads.acceptedAt;
  const isBusy = unfinished > 0 || uploads.isSending || !isCurrent;
  const { reload, trouble } = rows;
  // After a failure, the list itself repeats the call.
  usePolling(isBusy && !trouble, reload);
  // The last files may be accepted and complete between two calls.
  useEffect(() => {
    if (!uploads.isSending && uploads.accepted > 0) reload();
  }, [uploads.isSending, uploads.accepted, changes, reload]);

  const isFiltered = filter !== "" || state !== "";
  return (
    <div class="with-panel">
      <div class="list">
        {linkedTo(base) ? (
          <p class="notice">{say.linked}</p>
        ) : (
          <Sending
            base={base.id}
            unfinished={unfinished}
            isCurrent={isCurrent}
            failed={states?.failed ?? 0}
            cancel={() => setAsks(true)}
          />
        )}
        <Search filter={filter} state={state} states={states} />
        <RowList
          key={`${state} ${filter}`}
          of={rows}
          id="base-documents"
          columns={COLUMNS}
          label={words.countLabel}
          empty={isFiltered ? say.noDocumentFound : say.noDocuments}
          cells={cellsOf}
          open={(row) => go(link(["bases", base.id, "documents", row.name]))}
        />
        {asks && (
          <Confirm
            title={say.cancelAll}
            question={say.cancelAllQuestion(words.countLabel(unfinished))}
            action={say.cancelAll}
            close={() => setAsks(false)}
            run={async () => {
              uploads.cancel();
              await cancelAll(base.id);
              reload();
            }}
          />
        )}
      </div>
    </div>
  );
}

/** Whether a base only searches a collection of others. */
function linkedTo({ body }: Base): boolean {
  const parameters = body.storeParameters as Record<string, unknown>;
  return Boolean(parameters["collection"]) && String(parameters["shared"] ?? false).toLowerCase() !== "true";
}

function Search({ filter, state, states }: { filter: string; state: string; states: States | undefined }) {
  const [typed, setTyped] = useState(filter);
  useEffect(() => {
    if (typed.trim() === filter) return undefined;
    const timer = setTimeout(() => amend({ name: typed.trim() }, { replace: true }), TYPED_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <div class="spread filters-row">
      <div class="row" role="group" aria-label={say.statesLabel}>
        {STATES.map((each) => (
          <button key={each} type="button" aria-pressed={each === state} onClick={() => amend({ state: each }, { replace: true })}>
            {say.states[each]}
            {states && ` ${formatted(each === "" ? totalOf(states) : states[each])}`}
          </button>
        ))}
      </div>
      <label class="row">
        <span class="fine">{say.findDocument}</span>
        <input type="search" value={typed} maxLength={512} onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>
    </div>
  );
}

function cellsOf(document: Entry) {
  return [
    <span>
      <Stored value={document.name} max={300} />
    </span>,
    <StateOf of={document} />,
    <span>{document.searchable ? formatted(document.chunks) : words.notCounted}</span>,
    <span>{size(document.bytes)}</span>,
  ];
}

/** The state of a document in words. */
export function StateOf({ of }: { of: Entry }) {
  const status = raw(of.status);
  if (status === "completed") {
    if (of.reindexingError === undefined) return <span class="state-ok">✓ {say.states.completed}</span>;
    return (
      <span class="state-bad">
        ! {say.notReindexed}: <Stored value={oneLine(of.reindexingError, 200)} />
      </span>
    );
  }
  if (status.startsWith("failed")) {
    return (
      <span class="state-bad">
        ✗ {say.states.failed}: <Stored value={oneLine(word(status.replace(/^failed: /u, "")), 200)} />
        {of.searchable && ` (${say.replaced})`}
      </span>
    );
  }
  const waiting = of.waitingFor === undefined ? "" : raw(of.waitingFor);
  return (
    <span>
      {status === "pending" ? say.states.pending : say.progress(of.progress)}
      {waiting && waiting !== "queue" && (
        <span>
          , <Stored value={word(say.waitsFor(waiting))} />
        </span>
      )}
    </span>
  );
}

const CANCELLED = 1000;
const CONCURRENT = 6;

/** Cancel all ingestions of a base that have not ended. */
async function cancelAll(id: string): Promise<void> {
  for (const status of ["pending", "processing"] as const) {
    const { value } = await gateway("get", "/ragstore/rags/{id}/documents", {
      path: { id },
      query: { status, limit: CANCELLED },
    });
    const left = value.documents.map((each) => each.ingestionId);
    await Promise.all(Array.from({ length: CONCURRENT }, () => cancelEach(id, left)));
    if (value.total > CANCELLED) await cancelAll(id);
  }
}

async function cancelEach(id: string, left: Stored[]): Promise<void> {
  for (let next = left.pop(); next !== undefined; next = left.pop()) await cancelIngestion(id, next);
}

/** Cancel an ingestion. One that has ended meanwhile is no failure. */
export async function cancelIngestion(id: string, ingestion: Stored): Promise<void> {
  try {
    await gateway("delete", "/ragstore/rags/{id}/ingestion/{ingestion_id}", { path: { id, ingestion_id: ingestion } });
  } catch (error) {
    if (!isEnded(error)) throw error;
  }
}

function isEnded(error: unknown): boolean {
  const { code } = error as { code?: string };
  return code === "ingestion_ended" || code === "ingestion_not_found";
}

