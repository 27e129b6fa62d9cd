/** The documents of the map as a list: its equivalent for keyboard and screen reader. */
import { h } from "../../jsx";
import { store } from "../../api";
import type { Column } from "../../grid";
import { useRows, type Rows } from "../../pages";
import { RowList } from "../../row_list";
import type { components } from "../../schema/store";
import { mark, plain, raw, Stored } from "../../stored";
import { words } from "../../words";
import { idAndText, type Document } from "../documents";
import { valueText } from "../metadata";

const PAGE = 50;
const COLUMNS: Column[] = [
  { title: words.id, kind: "c-id" },
  { title: words.text, kind: "c-text" },
];

/** Read documents in the order of their ids. One that was deleted meanwhile has no text. */
export async function readDocuments(collection: Stored, ids: Stored[], signal?: AbortSignal): Promise<Document[]> {
  const { value } = await store("post", "/collections/{collection_name}/documents/filter", {
    path: { collection_name: collection },
    body: { ids: ids.map(raw), limit: ids.length, total: false } as unknown as components["schemas"]["DocumentFilter"],
    ...(signal && { signal }),
  });
  const found = new Map(value.documents.map((each) => [raw(each.id), each]));
  return ids.map((id) => found.get(raw(id)) ?? ({ id, text: mark(""), metadata: {} } as unknown as Document));
}

/** The rows of some points; `key` names them. */
export function usePoints(key: string, collection: Stored, ids: Stored[], points: number[]): Rows<Document> {
  return useRows(key, PAGE, async (offset, _, signal) => {
    const wanted = points.slice(offset, offset + PAGE).flatMap((point) => ids[point] ?? []);
    return { rows: wanted.length > 0 ? await readDocuments(collection, wanted, signal) : [], total: points.length };
  });
}

interface Properties {
  of: Rows<Document>;
  /** A metadata field that has a column; empty for none. */
  field: string;
  empty: readonly [string, string];
  opened: string | undefined;
  /** The row of the document that was opened on the map. */
  current: number | undefined;
  open: (row: number) => void;
  moved: (row: number) => void;
}

export function PointList({ of, field, empty, opened, current, open, moved }: Properties) {
  return (
    <RowList
      of={of}
      id="map-documents"
      columns={field ? [...COLUMNS, { title: plain(mark(field), 60), kind: "c-meta" }] : COLUMNS}
      label={words.countLabel}
      empty={empty}
      cells={(document) => [
        ...idAndText(document),
        <span>{field in document.metadata && <Stored value={valueText(document.metadata[field])} max={60} />}</span>,
      ]}
      open={(_, index) => open(index)}
      moved={moved}
      isOpen={(document) => raw(document.id) === opened}
      current={current}
    />
  );
}
