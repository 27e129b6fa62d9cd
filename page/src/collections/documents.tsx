/** The documents of a collection: filters, the list, and the panel of one of them. */
import { useEffect, useRef } from "preact/hooks";
import { Fragment, h } from "../jsx";
import { store } from "../api";
import { Grid, type Column } from "../grid";
import { useRows } from "../pages";
import { Bones, Empty, Problem, StaleStrip } from "../parts";
import { amend, route } from "../route";
import type { components } from "../schema/store";
import { mark, oneLine, raw, Stored, type Marked } from "../stored";
import { words } from "../words";
import { CopyAs } from "./code";
import { Filters } from "./filters";
import { pairsOf, Summary } from "./metadata";
import { DocumentPanel } from "./panel";
import type { Where } from "./where";

export type Document = Marked<components["schemas"]["Document"]>;

const PAGE = 50;
const FOLLOW_MILLISECONDS = 160;

const COLUMNS: Column[] = [
  { title: words.id, kind: "c-id" },
  { title: words.text, kind: "c-text" },
  { title: words.metadata, kind: "c-meta" },
];

/** The filter in the address. */
function filterOf(query: URLSearchParams): { where: Where | undefined; contains: string } {
  let where: Where | undefined;
  try {
    where = JSON.parse(query.get("where") ?? "null") as Where | undefined;
  } catch {
    where = undefined;
  }
  return { where: where ?? undefined, contains: query.get("text") ?? "" };
}

export function Documents({ collection, changed }: { collection: Stored; changed: () => void }) {
  const { query } = route.value;
  const { where, contains } = filterOf(query);
  const opened = query.get("id") ?? undefined;
  const follow = useRef<ReturnType<typeof setTimeout>>(undefined);
  const key = JSON.stringify([where, contains]);
  const rows = useRows<Document>(key, PAGE, async (offset, after, signal) => {
    const { value } = await store("post", "/collections/{collection_name}/documents/filter", {
      path: { collection_name: collection },
      body: {
        ...(where && { where }),
        ...(contains && { where_document: { $contains: contains } }),
        limit: PAGE,
        ...(after ? { after } : { offset }),
      } as components["schemas"]["DocumentFilter"],
      signal,
    });
    return { rows: value.documents, total: value.total ?? 0, next: value.next as unknown as string | undefined };
  });
  useEffect(() => () => clearTimeout(follow.current), []);

  function show(at: number, replace: boolean): void {
    const row = rows.row(at);
    if (row) amend({ id: row.id }, { replace });
  }

  function moved(at: number): void {
    if (opened === undefined) return;
    // The active row moves first; the panel follows when it rests.
    clearTimeout(follow.current);
    follow.current = setTimeout(() => show(at, true), FOLLOW_MILLISECONDS);
  }

  function close(): void {
    amend({ id: undefined });
    document.getElementById("documents")?.focus();
  }

  function forget(): void {
    close();
    rows.reload();
    changed();
  }

  const isFiltered = where !== undefined || contains !== "";
  return (
    <>
      <Filters
        collection={collection}
        where={where}
        contains={contains}
        fields={fieldsOf(rows.loaded())}
        total={rows.total}
        code={<CopyAs collection={collection} where={where} contains={contains} />}
      />
      <div class="with-panel">
        <div class="list">
          {rows.total === undefined && !rows.trouble && <Bones />}
          {rows.total === undefined && rows.trouble && (
            <Problem failure={rows.trouble.failure} nextAt={rows.trouble.nextAt} retry={rows.reload} />
          )}
          {rows.total !== undefined && rows.trouble && (
            <StaleStrip trouble={rows.trouble} loadedAt={rows.loadedAt} retry={rows.reload} />
          )}
          {rows.total === 0 && <Empty of={isFiltered ? words.noDocumentFound : words.noDocuments} />}
          {rows.total !== undefined && rows.total > 0 && (
            <div class={rows.trouble ? "stale" : "fresh"}>
              <Grid
                key={key}
                id="documents"
                label={words.countLabel(rows.total)}
                columns={COLUMNS}
                total={rows.total}
                cells={(at) => cellsOf(rows.row(at))}
                onVisible={rows.see}
                onMove={moved}
                onOpen={(at) => show(at, opened !== undefined)}
                isOpen={(at) => isOpen(rows.row(at), opened)}
              />
            </div>
          )}
        </div>
        {opened !== undefined && (
          <DocumentPanel collection={collection} id={mark(opened)} close={close} deleted={forget} />
        )}
      </div>
    </>
  );
}

function isOpen(document: Document | undefined, opened: string | undefined): boolean {
  return document !== undefined && opened !== undefined && raw(document.id) === opened;
}

function cellsOf(document: Document | undefined) {
  if (!document) return undefined;
  return [
    <span class="mono">
      <Stored value={document.id} max={300} />
    </span>,
    <span>
      <Stored value={oneLine(document.text, 300)} />
    </span>,
    <Summary of={document.metadata} />,
  ];
}

/** The fields of documents, for suggestions. */
function fieldsOf(documents: Document[]): Stored[] {
  const found = new Map<string, Stored>();
  for (const document of documents) {
    for (const [key] of pairsOf(document.metadata)) found.set(key as unknown as string, key);
  }
  return [...found.values()].slice(0, 40);
}
