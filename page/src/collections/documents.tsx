/** The documents of a collection: filters, the list, and the panel of one of them. */
import { useEffect, useRef } from "preact/hooks";
import { Fragment, h } from "../jsx";
import { store } from "../api";
import type { Column } from "../grid";
import { useRows } from "../pages";
import { amend, route } from "../route";
import { RowList } from "../row_list";
import type { components } from "../schema/store";
import { oneLine, raw, Stored, type Marked } from "../stored";
import { words } from "../words";
import { CopyAs } from "./code";
import { Filters, TextFilter } from "./filters";
import { pairsOf, Summary } from "./metadata";
import { WithDocument } from "./panel";
import { filterIn } from "./where";

export type Document = Marked<components["schemas"]["Document"]>;

const PAGE = 50;
const FOLLOW_MILLISECONDS = 160;

const COLUMNS: Column[] = [
  { title: words.id, kind: "c-id" },
  { title: words.text, kind: "c-text" },
  { title: words.metadata, kind: "c-meta" },
];

export function Documents({ collection, changed }: { collection: Stored; changed: () => void }) {
  const { query } = route.value;
  const { where, contains } = filterIn(query);
  const opened = query.get("id") ?? undefined;
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
  const follow = useFollowing((at) => show(at, true));

  function show(at: number, replace: boolean): void {
    const row = rows.row(at);
    if (row) amend({ id: row.id }, { replace });
  }

  const isFiltered = where !== undefined || contains !== "";
  return (
    <>
      <Filters
        collection={collection}
        where={where}
        fields={fieldsOf(rows.loaded())}
        total={rows.total}
        tools={
          <>
            <TextFilter contains={contains} />
            <CopyAs collection={collection} where={where} contains={contains} />
          </>
        }
      />
      <WithDocument
        collection={collection}
        list="documents"
        deleted={() => {
          rows.reload();
          changed();
        }}
      >
        <RowList
          key={key}
          of={rows}
          id="documents"
          columns={COLUMNS}
          label={words.countLabel}
          empty={isFiltered ? words.noDocumentFound : words.noDocuments}
          cells={cellsOf}
          open={(_, at) => show(at, opened !== undefined)}
          moved={(at) => opened !== undefined && follow(at)}
          isOpen={(document) => raw(document.id) === opened}
        />
      </WithDocument>
    </>
  );
}

/** Follows the active row of a list: it moves first, and what follows it is called when it rests. */
export function useFollowing(action: (row: number) => void): (row: number) => void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (row) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => action(row), FOLLOW_MILLISECONDS);
  };
}

function cellsOf(document: Document) {
  return [...idAndText(document), <Summary of={document.metadata} />];
}

/** The first cells of a document in a list. */
export function idAndText(document: Document) {
  return [
    <span class="mono">
      <Stored value={document.id} max={300} />
    </span>,
    <span>
      <Stored value={oneLine(document.text, 300)} />
    </span>,
  ];
}

/** The fields of documents, for suggestions. */
export function fieldsOf(documents: Document[]): Stored[] {
  const found = new Map<string, Stored>();
  for (const document of documents) {
    for (const [key] of pairsOf(document.metadata)) found.set(key as unknown as string, key);
  }
  return [...found.values()].slice(0, 40);
}
