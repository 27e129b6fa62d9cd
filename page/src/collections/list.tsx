/** The list of collections. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { Fragment, h, type Child } from "../jsx";
import { store } from "../api";
import { Grid, type Column } from "../grid";
import { useRows } from "../pages";
import { Bones, Empty, Problem } from "../parts";
import { useResource } from "../resource";
import { go, link } from "../route";
import { RowList } from "../row_list";
import type { components } from "../schema/store";
import { plain, raw, Stored, type Marked } from "../stored";
import { formatted, words } from "../words";
import { baseOf, readBases } from "./bases";
import { valueText } from "./metadata";

export type Collection = Marked<components["schemas"]["Collection"]>;

const PAGE = 50;

const COLUMNS: Column[] = [
  { title: words.name, kind: "c-name" },
  { title: words.count, kind: "c-number" },
  { title: words.dimension, kind: "c-number dimension" },
  { title: words.distance, kind: "c-word" },
  { title: words.embeddingModel, kind: "c-model" },
];

export function CollectionList() {
  const [wanted, setWanted] = useState("");
  useEffect(() => void readBases(), []);
  return (
    <div class="screen">
      <div class="screen-head">
        <div class="spread">
          <h1>{words.collections}</h1>
          <label class="row">
            <span class="fine">{words.findCollection}</span>
            <input type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
          </label>
        </div>
      </div>
      <div class="screen-body">{wanted.trim() ? <Found wanted={wanted.trim()} /> : <All />}</div>
    </div>
  );
}

function open(collection: Collection): void {
  go(link(["collections", collection.name]));
}

/** All collections, page by page; documents are counted for visible pages only. */
function All() {
  const rows = useRows<Collection>("all", PAGE, async (offset, _, signal) => {
    const { value } = await store("get", "/collections", { query: { limit: PAGE, offset }, signal });
    return { rows: value.collections, total: value.total };
  });
  return (
    <RowList
      of={rows}
      id="collections"
      columns={COLUMNS}
      label={words.collectionsLabel}
      empty={words.noCollections}
      cells={cellsOf}
      open={open}
    />
  );
}

/** The collections whose name, or the name of whose base, has a text. */
function Found({ wanted }: { wanted: string }) {
  const all = useResource("names", async (signal) => {
    const { value } = await store("get", "/collections", { query: { counts: false }, signal });
    return value.collections;
  });
  const [counts] = useState(() => new Map<Stored, Collection>());
  const [, redraw] = useState(0);
  const needle = wanted.toLowerCase();
  const found = useMemo(
    () =>
      all.data?.filter((each) => {
        const base = baseOf(each.name);
        return [each.name, ...(base ? [base] : [])].some((name) => raw(name).toLowerCase().includes(needle));
      }),
    [all.data, needle],
  );
  if (!found) {
    return all.trouble ? <Problem failure={all.trouble.failure} nextAt={all.trouble.nextAt} retry={all.reload} /> : <Bones />;
  }
  if (found.length === 0) return <Empty of={words.noCollectionFound} />;
  async function count(first: number, last: number): Promise<void> {
    const missing = found?.slice(first, last + 1).filter((each) => !counts.has(each.name)) ?? [];
    for (const each of missing) counts.set(each.name, each);
    await Promise.all(
      missing.map(async (each) => {
        try {
          const { value } = await store("get", "/collections/{collection_name}", { path: { collection_name: each.name } });
          counts.set(each.name, value);
        } catch {
          // The row stays without its count.
        }
      }),
    );
    redraw((last) => last + 1);
  }
  return (
    <Grid
      id="collections"
      label={words.collectionsLabel(found.length)}
      columns={COLUMNS}
      total={found.length}
      cells={(index) => {
        const row = found[index];
        return row && cellsOf(counts.get(row.name) ?? row);
      }}
      onVisible={(first, last) => void count(first, last)}
      onOpen={(index) => {
        const row = found[index];
        if (row) open(row);
      }}
    />
  );
}

function cellsOf(collection: Collection): Child[] {
  const base = baseOf(collection.name);
  const model = collection.metadata["embedding_model"];
  return [
    <>
      <span title={plain(collection.name)}>
        <Stored value={base ?? collection.name} max={200} />
      </span>
      {base && (
        <span class="fine mono">
          <Stored value={collection.name} />
        </span>
      )}
    </>,
    <span>{collection.count === null ? words.notCounted : formatted(collection.count)}</span>,
    <span>{collection.dimension === null ? words.notCounted : formatted(collection.dimension)}</span>,
    <span>{collection.distance}</span>,
    <span>{model !== undefined && <Stored value={valueText(model)} max={120} />}</span>,
  ];
}
