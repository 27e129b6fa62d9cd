/** The searches in the data of a step or an entry. */
import type { say as fates } from "../compare/words";
import type { Stored } from "../stored";

/** A search of a base. The contract has the data of a step as an object: the keys name the tasks. */
export interface Search {
  kb: Stored;
  id?: Stored;
  version?: number;
  provider?: Stored;
  storeType?: Stored;
  maxResults?: number;
  minScore?: number;
  retrievedCount?: number;
  passages?: Passage[];
  error?: Stored;
}

export interface Passage {
  id: Stored;
  score: number;
  fate: keyof typeof fates.fates;
  documentId?: Stored;
  number?: number;
  omitted?: boolean;
}

/** The beginning of the keys of searches; the name of the task follows. */
export const SEARCHES = "rag:trace:";

export const entriesOf = (data: unknown): [string, unknown][] => Object.entries(data as Record<string, unknown>);

export const searchesOf = (data: unknown): Search[] => entriesOf(data).flatMap(([key, value]) => (key.startsWith(SEARCHES) ? (value as Search[]) : []));

/** The numbers of passages that were in the prompt, and that were found. */
export function usedOf(data: unknown): { used: number; found: number } {
  const passages = searchesOf(data).flatMap((each) => each.passages ?? []);
  return { used: passages.filter((each) => each.number).length, found: passages.length };
}
