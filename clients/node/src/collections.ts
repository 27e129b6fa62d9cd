/** The calls on collections. */

import { collectionPath, integer, parseCallOptions, parseOptions } from "./arguments.js";
import { type Core, wireBody } from "./core.js";
import { checkMetadata } from "./encoding.js";
import { CollectionMismatch, InvalidInput, NotFound } from "./errors.js";
import type { CallOptions } from "./transport.js";
import type {
  Collection,
  CollectionCreated,
  CollectionDeleted,
  CollectionMetadata,
  CollectionPage,
  MetadataUpdated,
  MetadataValues,
  NewCollection,
  Schemas,
} from "./types.js";

export async function createCollection(
  core: Core,
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
    ifExists: true,
  });
  const { ifExists, ...collection } = own;
  if (ifExists !== undefined && ifExists !== "use") {
    throw new InvalidInput("ifExists must be 'use'");
  }
  checkMetadata(collection.metadata, "$.metadata");
  const body = wireBody<Schemas["NewCollection"]>({ name, ...collection });
  const created = await core.send((api, init) => api.POST("/collections", { ...init, body }), call, {
    idempotent: collection.getOrCreate === true,
  });
  if (created.status === "exists" && ifExists !== "use") {
    checkSame(created, collection);
  }
  return created;
}

function checkSame(existing: CollectionCreated, { distance, embeddingModel, embeddingProvider, metadata }: NewCollection): void {
  const wanted = {
    embedding_model: embeddingModel ?? metadata?.["embedding_model"],
    embedding_provider: embeddingProvider ?? metadata?.["embedding_provider"],
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

export async function listCollections(
  core: Core,
  options?: { limit?: number | undefined; offset?: number | undefined } & CallOptions,
): Promise<CollectionPage> {
  const { call, own: query } = parseOptions<{ limit?: number; offset?: number }>(
    "listCollections",
    options as { limit?: number; offset?: number } & CallOptions,
    { limit: true, offset: true },
  );
  return await core.send((api, init) => api.GET("/collections", { ...init, params: { query } }), call);
}

export async function* iterCollections(
  core: Core,
  options?: { pageSize?: number | undefined } & CallOptions,
): AsyncGenerator<Collection, void, undefined> {
  const { call, own } = parseOptions<{ pageSize?: number | undefined }>("iterCollections", options, { pageSize: true });
  const limit = integer("pageSize", own.pageSize ?? 100, 1);
  for (let offset = 0; ; ) {
    const { collections, count, total } = await listCollections(core, { ...call, limit, offset });
    yield* collections;
    offset += count;
    if (count === 0 || offset >= total) {
      return;
    }
  }
}

export async function getCollection(core: Core, name: string, options?: CallOptions): Promise<Collection> {
  const params = { path: collectionPath(name) };
  return await core.send(
    (api, init) => api.GET("/collections/{collection_name}", { ...init, params }),
    parseCallOptions("getCollection", options),
  );
}

export async function collectionExists(core: Core, name: string, options?: CallOptions): Promise<boolean> {
  try {
    await getCollection(core, name, parseCallOptions("exists", options));
    return true;
  } catch (error) {
    if (error instanceof NotFound && error.code === "collection_not_found") {
      return false;
    }
    throw error;
  }
}

export async function updateCollectionMetadata(
  core: Core,
  name: string,
  metadata: CollectionMetadata,
  options?: { merge?: boolean | undefined } & CallOptions,
): Promise<MetadataUpdated> {
  const { call, own } = parseOptions<{ merge?: boolean | undefined }>("updateCollectionMetadata", options, { merge: true });
  checkMetadata(metadata, "$.metadata");
  const params = { path: collectionPath(name), query: { merge: own.merge ?? false } };
  return await core.send(
    (api, init) => api.PUT("/collections/{collection_name}/metadata", { ...init, params, body: { metadata } }),
    call,
  );
}

export async function deleteCollection(core: Core, name: string, options?: CallOptions): Promise<CollectionDeleted> {
  const params = { path: collectionPath(name) };
  return await core.send(
    (api, init) => api.DELETE("/collections/{collection_name}", { ...init, params }),
    parseCallOptions("deleteCollection", options),
    { resultIfGone: { status: "deleted", name } },
  );
}

export async function metadataValues(
  core: Core,
  name: string,
  field: string,
  options?: { limit?: number | undefined } & CallOptions,
): Promise<MetadataValues> {
  const { call, own } = parseOptions<{ limit?: number }>("metadataValues", options as { limit?: number } & CallOptions, { limit: true });
  const params = { path: collectionPath(name), query: { field, ...own } };
  return await core.send(
    (api, init) => api.GET("/collections/{collection_name}/metadata-values", { ...init, params }),
    call,
  );
}
