/** The calls that search. */

import { collectionPath, stringArray, integer, type Names, type ParsedOptions, parseOptions } from "./arguments.js";
import { camelKeys } from "./casing.js";
import { type Core, includedParts, wireBody } from "./core.js";
import { toBase64 } from "./embeddings.js";
import { IngestCalls } from "./ingest_calls.js";
import type { CallOptions, CollectionMap, Embedding, MapOptions, MultiQueryResults, QueryOptions, QueryResults, Schemas } from "./types.js";

const QUERY: Names<QueryOptions> = {
  topK: true,
  where: true,
  whereDocument: true,
  maxDistance: true,
  minScore: true,
  includeEmbeddings: true,
  includeTexts: true,
};

/** How several queries are sent. */
export interface BatchOptions {
  /** Maximum number of requests in flight: 8 by default. */
  concurrency?: number | undefined;
}

/** The calls of a client that search. */
export class QueryCalls extends IngestCalls {
  /** Find the documents nearest to an embedding. */
  async query(
    collection: string,
    embedding: Embedding,
    options?: QueryOptions & CallOptions,
  ): Promise<QueryResults> {
    return await sendQuery(this.core, collection, embedding, parseOptions<QueryOptions>("query", options, QUERY));
  }

  /** Find the documents nearest to each of several embeddings, with several requests in flight. */
  async queryBatch(
    collection: string,
    embeddings: Iterable<Embedding>,
    options?: QueryOptions & BatchOptions & CallOptions,
  ): Promise<QueryResults[]> {
    const { call, own } = parseOptions<QueryOptions & BatchOptions>("queryBatch", options, { ...QUERY, concurrency: true });
    const { concurrency = 8, ...query } = own;
    const pending = [...embeddings].entries();
    const results: QueryResults[] = [];
    // The first error ends the other queries, too.
    const controller = new AbortController();
    const abort = (): void => {
      controller.abort(call.signal?.reason);
    };
    call.signal?.throwIfAborted();
    call.signal?.addEventListener("abort", abort);
    const worker = async (): Promise<void> => {
      for (const [index, embedding] of pending) {
        results[index] = await sendQuery(this.core, collection, embedding, { own: query, call: { ...call, signal: controller.signal } });
      }
    };
    try {
      await Promise.all(Array.from({ length: integer("concurrency", concurrency, 1) }, worker));
    } finally {
      call.signal?.removeEventListener("abort", abort);
      controller.abort();
    }
    return results;
  }

  /** Find the documents nearest to an embedding in several collections. `errors` lists those that failed. */
  async queryCollections(
    collections: Iterable<string>,
    embedding: Embedding,
    options?: QueryOptions & CallOptions,
  ): Promise<MultiQueryResults> {
    const { call, own } = parseOptions<QueryOptions>("queryCollections", options, QUERY);
    const { includeEmbeddings, includeTexts, ...query } = own;
    const body = wireBody<Schemas["MultiQueryRequest"]>({
      ...query,
      ...includedParts({ includeEmbeddings, includeTexts }),
      collections: stringArray("collections", collections),
      queryEmbedding: toBase64(embedding),
    });
    return camelKeys(await this.core.send((api, init) => api.POST("/query", { ...init, body }), call));
  }

  /**
   * Make a map of a sample of the documents, with the exact nearest neighbours of each.
   *
   * @throws Unavailable if the service was making another map, after the retries.
   */
  async mapCollection(collection: string, options?: MapOptions & CallOptions): Promise<CollectionMap> {
    const { call, own } = parseOptions<MapOptions>("mapCollection", options, { points: true, where: true, color: true });
    const params = { path: collectionPath(collection) };
    const body = wireBody<Schemas["MapRequest"]>(own);
    return camelKeys(
      await this.core.send((api, init) => api.POST("/collections/{collection_name}/map", { ...init, params, body }), call),
    );
  }
}

async function sendQuery(
  core: Core,
  collection: string,
  embedding: Embedding,
  { call, own }: ParsedOptions<QueryOptions>,
): Promise<QueryResults> {
  const params = { path: collectionPath(collection) };
  const { includeEmbeddings, includeTexts, ...query } = own;
  const included = includedParts({ includeEmbeddings, includeTexts });
  const body = wireBody<Schemas["QueryRequest"]>({ ...query, ...included, queryEmbedding: toBase64(embedding) });
  return camelKeys(
    await core.send((api, init) => api.POST("/collections/{collection_name}/query", { ...init, params, body }), call),
  );
}
