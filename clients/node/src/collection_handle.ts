/** A collection of a client, so that its name is given once. */

import type { QueryCalls } from "./queries.js";

/** The calls of a handle, each with the client's call that it makes. */
const CALLS = {
  create: "createCollection",
  get: "getCollection",
  exists: "collectionExists",
  updateMetadata: "updateCollectionMetadata",
  delete: "deleteCollection",
  startRebuild: "startRebuild",
  getRebuild: "getRebuild",
  metadataValues: "metadataValues",
  addDocuments: "addDocuments",
  upsertDocuments: "upsertDocuments",
  ingest: "ingest",
  ingestAll: "ingestAll",
  listDocuments: "listDocuments",
  iterDocuments: "iterDocuments",
  count: "count",
  getDocument: "getDocument",
  getDocuments: "getDocuments",
  documentExists: "documentExists",
  updateDocuments: "updateDocuments",
  deleteDocuments: "deleteDocuments",
  empty: "emptyCollection",
  query: "query",
  queryBatch: "queryBatch",
  map: "mapCollection",
} as const satisfies Record<string, keyof QueryCalls>;

/** A call without its first argument, the collection's name. */
type WithoutName<Call> = Call extends (name: string, ...rest: infer Rest) => infer Result ? (...rest: Rest) => Result : never;

/**
 * The calls of a client on one collection. Each has the arguments, the options and the errors of the client's call;
 * `create`, `get`, `exists`, `updateMetadata`, `delete` and `empty` are short for `createCollection`, `getCollection` and
 * so on.
 */
export type CollectionHandle = {
  readonly [Name in keyof typeof CALLS]: WithoutName<QueryCalls[(typeof CALLS)[Name]]>;
} & {
  /** The collection's name. */
  readonly name: string;
};

/** The handle of a collection. */
export function collectionHandle(client: QueryCalls, name: string): CollectionHandle {
  const methods = client as unknown as Record<keyof QueryCalls, (name: string, ...rest: unknown[]) => unknown>;
  const calls = Object.entries(CALLS).map(([own, call]) => [own, (...rest: unknown[]) => methods[call](name, ...rest)] as const);
  return Object.freeze({ name, ...Object.fromEntries(calls) }) as CollectionHandle;
}
