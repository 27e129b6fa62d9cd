/** The calls on collections. */

import { checkOptions, collectionPath, integer, type Names, parseCallOptions, parseOptions } from "./arguments.js";
import { camelKeys } from "./casing.js";
import { type Core, wireBody } from "./core.js";
import { checkMetadata } from "./encoding.js";
import { CollectionMismatch, InvalidInput, NotFound } from "./errors.js";
import type {
  CallOptions,
  Collection,
  CollectionCreated,
  CollectionDeleted,
  CollectionMetadata,
  CollectionPage,
  HnswParameters,
  MetadataUpdated,
  MetadataValues,
  NewCollection,
  Rebuild,
  Schemas,
} from "./types.js";

const HNSW: Names<HnswParameters> = { efConstruction: true, maxNeighbors: true, efSearch: true };

/** The page of collections to list. */
export interface ListCollectionsOptions {
  /** Maximum number of collections; all by default. */
  limit?: number | undefined;
  /** Number of collections to skip. */
  offset?: number | undefined;
  /** Whether to count the documents of each collection: true by default. */
  counts?: boolean | undefined;
}

/** The values of a metadata field to list. */
export interface MetadataValuesOptions {
  /** Maximum number of values; all by default. */
  limit?: number | undefined;
  /** Whether to return the values with their types, too, as a filter needs them. */
  typed?: boolean | undefined;
}

/** How an index is rebuilt. */
export interface StartRebuildOptions {
  /** Parameters of the new index; omitted parameters stay as they are. */
  hnsw?: HnswParameters | undefined;
  /** Number of documents that are looked for in the old index and in the new one: 500 by default. */
  sample?: number | undefined;
}

/** How collections are iterated over. */
export interface IterCollectionsOptions {
  /** Number of collections in a request: 100 by default. */
  pageSize?: number | undefined;
  /** Whether to count the documents of each collection: true by default. */
  counts?: boolean | undefined;
}

/** The calls of a client on collections. */
export class CollectionCalls {
  constructor(protected readonly core: Core) {}

  /**
   * Create a collection.
   *
   * @throws Conflict if it exists, unless `getOrCreate` is true.
   * @throws CollectionMismatch if it exists with another distance function or embedding model than the options have,
   *   unless `ifExists` is `use`.
   */
  async createCollection(
    name: string,
    options?: NewCollection & CallOptions,
  ): Promise<CollectionCreated> {
    if (typeof name !== "string") {
      throw new InvalidInput('the name comes first: createCollection("name", { ... })');
    }
    const { call, own } = parseOptions<NewCollection>("createCollection", options, {
      metadata: true,
      embeddingProvider: true,
      embeddingModel: true,
      distance: true,
      getOrCreate: true,
      hnsw: true,
      ifExists: true,
    });
    const { ifExists, ...collection } = own;
    if (ifExists !== undefined && (ifExists as string) !== "use") {
      throw new InvalidInput("ifExists must be 'use'");
    }
    checkMetadata(collection.metadata, "$.metadata");
    checkOptions("createCollection: hnsw", collection.hnsw, HNSW);
    const hnsw = collection.hnsw && wireBody<Schemas["HnswParameters"]>(collection.hnsw);
    const body = wireBody<Schemas["NewCollection"]>({ name, ...collection, hnsw });
    const created = await this.core.send((api, init) => api.POST("/collections", { ...init, body }), call, {
      idempotent: collection.getOrCreate === true,
    });
    if (created.status === "exists" && ifExists !== "use") {
      checkSame(created, collection);
    }
    return created;
  }

  /** List collections; all of them without a `limit`. Their documents are counted unless `counts` is false. */
  async listCollections(
    options?: ListCollectionsOptions & CallOptions,
  ): Promise<CollectionPage> {
    const { call, own } = parseOptions<ListCollectionsOptions>("listCollections", options, {
      limit: true,
      offset: true,
      counts: true,
    });
    const params = { query: wireBody<object>(own) };
    const page = await this.core.send((api, init) => api.GET("/collections", { ...init, params }), call);
    return { ...page, collections: page.collections.map(asCollection) };
  }

  /** Iterate over all collections, page by page. Their documents are counted unless `counts` is false. */
  async *iterCollections(
    options?: IterCollectionsOptions & CallOptions,
  ): AsyncGenerator<Collection, void, undefined> {
    const { call, own } = parseOptions<IterCollectionsOptions>("iterCollections", options, { pageSize: true, counts: true });
    const { pageSize = 100, counts = true } = own;
    const limit = integer("pageSize", pageSize, 1);
    for (let offset = 0; ; ) {
      const { collections, count, total } = await this.listCollections({ ...call, limit, offset, counts });
      yield* collections;
      offset += count;
      if (count === 0 || offset >= total) {
        return;
      }
    }
  }

  /** Get a collection's metadata, number of documents, dimension and distance function. */
  async getCollection(name: string, options?: CallOptions): Promise<Collection> {
    const params = { path: collectionPath(name) };
    const found = await this.core.send(
      (api, init) => api.GET("/collections/{collection_name}", { ...init, params }),
      parseCallOptions("getCollection", options),
    );
    return asCollection(found);
  }

  /** Whether a collection exists, and the key may access it. */
  async collectionExists(name: string, options?: CallOptions): Promise<boolean> {
    try {
      await this.getCollection(name, parseCallOptions("exists", options));
      return true;
    } catch (error) {
      if (error instanceof NotFound && error.code === "collection_not_found") {
        return false;
      }
      throw error;
    }
  }

  /** Change the given keys of a collection's metadata; null removes a key. With `merge: false`, replace all of it. */
  async updateCollectionMetadata(
    name: string,
    metadata: CollectionMetadata,
    options?: { merge?: boolean | undefined } & CallOptions,
  ): Promise<MetadataUpdated> {
    const { call, own } = parseOptions<{ merge?: boolean | undefined }>("updateCollectionMetadata", options, { merge: true });
    checkMetadata(metadata, "$.metadata");
    const params = { path: collectionPath(name), query: { merge: own.merge ?? true } };
    return await this.core.send(
      (api, init) => api.PUT("/collections/{collection_name}/metadata", { ...init, params, body: { metadata } }),
      call,
    );
  }

  /** Delete a collection and all its documents. */
  async deleteCollection(name: string, options?: CallOptions): Promise<CollectionDeleted> {
    const params = { path: collectionPath(name) };
    return await this.core.send(
      (api, init) => api.DELETE("/collections/{collection_name}", { ...init, params }),
      parseCallOptions("deleteCollection", options),
      { resultIfGone: { status: "deleted", name } },
    );
  }

  /**
   * Begin to rebuild a collection's index in the background, while the collection is read and written.
   *
   * @throws Conflict if the index is being rebuilt, or if Chroma is a server.
   */
  async startRebuild(name: string, options?: StartRebuildOptions & CallOptions): Promise<Rebuild> {
    const { call, own } = parseOptions<StartRebuildOptions>("startRebuild", options, { hnsw: true, sample: true });
    const { hnsw, sample } = own;
    checkOptions("startRebuild: hnsw", hnsw, HNSW);
    const query = wireBody<{ sample?: number; max_neighbors?: number }>({ ...hnsw, sample });
    const params = { path: collectionPath(name), query };
    return await this.core.send(
      (api, init) => api.POST("/collections/{collection_name}/rebuild", { ...init, params }),
      call,
      { idempotent: false },
    );
  }

  /** Get the state of the latest rebuild of a collection's index since the service started. */
  async getRebuild(name: string, options?: CallOptions): Promise<Rebuild> {
    const params = { path: collectionPath(name) };
    return await this.core.send(
      (api, init) => api.GET("/collections/{collection_name}/rebuild", { ...init, params }),
      parseCallOptions("getRebuild", options),
    );
  }

  /** List the distinct values of a metadata field as strings, sorted; with `typed` also with their types, for filters. */
  async metadataValues(
    name: string,
    field: string,
    options?: MetadataValuesOptions & CallOptions,
  ): Promise<MetadataValues> {
    const { call, own } = parseOptions<{ limit?: number; typed?: boolean }>(
      "metadataValues",
      options as { limit?: number; typed?: boolean } & CallOptions,
      { limit: true, typed: true },
    );
    const params = { path: collectionPath(name), query: { field, ...own } };
    return await this.core.send(
      (api, init) => api.GET("/collections/{collection_name}/metadata-values", { ...init, params }),
      call,
    );
  }
}

function checkSame(existing: CollectionCreated, { distance, embeddingModel, embeddingProvider, metadata }: NewCollection): void {
  const wanted = {
    embedding_model: embeddingModel ?? metadata?.embedding_model,
    embedding_provider: embeddingProvider ?? metadata?.embedding_provider,
  };
  const differences = Object.entries(wanted)
    .filter(([key, value]) => typeof value === "string" && existing.metadata[key] !== value)
    .map(([key]) => `another '${key}'`);
  if (distance && existing.distance !== distance) {
    differences.unshift(`the distance '${existing.distance}', not '${distance}'`);
  }
  if (differences.length > 0) {
    throw new CollectionMismatch(
      `collection '${existing.name}' exists with ${differences.join(" and ")}; ifExists: "use" accepts it`,
    );
  }
}

function asCollection({ hnsw, ...collection }: Schemas["Collection"]): Collection {
  return hnsw === undefined ? collection : { ...collection, hnsw: camelKeys(hnsw) };
}

