/** The names of documents, which traces name by their ids. */
import { gateway } from "../api";
import type { Failure } from "../failure";
import { useResource } from "../resource";
import { raw, type Stored } from "../stored";
import { searchesOf } from "./searches";

/** The names of the documents of each base, by their ids. A document that does not exist for the key has none. */
export type Names = ReadonlyMap<string, ReadonlyMap<string, Stored>>;

const NONE: Names = new Map();
const PER_CALL = 100;
/** Statuses of a base that does not exist for the key, or whose documents it may not read. */
const ABSENT = [403, 404];

/** The names of all documents of the data of steps or entries; none until they are read. */
export function useNames(of: unknown[]): Names {
  const wanted = documentsOf(of);
  return useResource(`names ${JSON.stringify(wanted)}`, (signal) => readNames(wanted, signal)).data ?? NONE;
}

/** The ids of bases, each with the ids of its documents. */
function documentsOf(of: unknown[]): [string, string[]][] {
  const found = new Map<string, Set<string>>();
  for (const { id, passages = [] } of of.flatMap(searchesOf)) {
    const documents = passages.flatMap((each) => (each.documentId === undefined ? [] : [raw(each.documentId)]));
    if (id === undefined || documents.length === 0) continue;
    found.set(raw(id), new Set([...(found.get(raw(id)) ?? []), ...documents]));
  }
  return [...found].map(([base, documents]) => [base, [...documents].sort()]);
}

async function readNames(wanted: [string, string[]][], signal: AbortSignal): Promise<Names> {
  const found = new Map<string, Map<string, Stored>>();
  for (const [base, ids] of wanted) found.set(base, await readNamesOf(base, ids, signal));
  return found;
}

async function readNamesOf(base: string, ids: string[], signal: AbortSignal): Promise<Map<string, Stored>> {
  const found = new Map<string, Stored>();
  for (let start = 0; start < ids.length; start += PER_CALL) {
    const query = { documentId: ids.slice(start, start + PER_CALL), limit: PER_CALL };
    try {
      const { value } = await gateway("get", "/ragstore/rags/{id}/documents", { path: { id: base }, query, signal });
      for (const each of value.documents) found.set(raw(each.id), each.name);
    } catch (error) {
      if (!ABSENT.includes((error as Failure).status)) throw error;
      return found;
    }
  }
  return found;
}
