/** The types of the contract with the names of JavaScript: `topK` for the contract's `top_k`. */

import type { CamelKeys } from "./casing.js";
import type { Embedding } from "./embeddings.js";
import type { Retries } from "./retry.js";
import type { components } from "./schema.js";

export type { Embedding } from "./embeddings.js";

/** The types of the OpenAPI document, with the names of the contract. */
export type Schemas = components["schemas"];

/** Options of every call. An absent one is the client's. */
export interface CallOptions {
  /** Aborts the call, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Maximum time for one attempt, including its response; null for no limit. */
  timeoutMs?: number | null | undefined;
  /** Maximum time for the whole call, with all retries and the delays between them; null for no limit. */
  deadlineMs?: number | null | undefined;
  /** Number of retries, or fields of the retry policy. */
  retries?: Retries | undefined;
  /** Additional headers. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Id under which the service logs the request (`X-Request-ID`). All attempts share it; a random one by default. */
  requestId?: string | undefined;
}

export type Collection = Omit<Schemas["Collection"], "hnsw"> & {
  /** Parameters of Chroma's index; absent if all have Chroma's default. */
  hnsw?: HnswParameters;
};
export type CollectionCreated = Schemas["CollectionCreated"];
export type CollectionDeleted = Schemas["CollectionDeleted"];
export type CollectionError = Schemas["CollectionError"];
export type CollectionMap = CamelKeys<Schemas["CollectionMap"]>;
export type CollectionMetadata = Schemas["CollectionMetadata"];
export type CollectionPage = Omit<Schemas["CollectionPage"], "collections"> & { collections: Collection[] };
export type DeleteAllResult = CamelKeys<Schemas["DeleteAllResult"]>;
export type DeleteResult = Schemas["DeleteResult"];
export type Distance = Collection["distance"];
export type Document = Schemas["Document"];
export type DocumentMetadata = Schemas["DocumentMetadata"];
export type DocumentPage = Schemas["DocumentPage"];
export type DocumentsUpdated = Schemas["DocumentsUpdated"];
export type FieldError = Schemas["FieldError"];
export type Health = Omit<CamelKeys<Schemas["Health"]>, "details"> & {
  /** The state of Chroma. */
  details: HealthDetails;
};
export type HealthDetails = CamelKeys<Schemas["HealthDetails"]>;
export type HnswParameters = Options<CamelKeys<Schemas["HnswParameters"]>>;
export type Match = Schemas["Match"];
export type MetadataUpdated = Schemas["MetadataUpdated"];
export type MetadataValues = Schemas["MetadataValues"];
export type Rebuild = Schemas["Rebuild"];
export type MultiQueryResults = CamelKeys<Schemas["MultiQueryResults"]>;
export type Probe = Schemas["Probe"];
export type Problem = Schemas["Problem"];
export type ProblemCode = Schemas["ProblemCode"];
export type QueryResults = CamelKeys<Schemas["QueryResults"]>;
export type Scalar = Schemas["Scalar"];
export type ServiceInfo = Schemas["ServiceInfo"];
export type WhereDocument = Schemas["WhereDocument"];
export type WhereOperators = Schemas["WhereOperators"];
export type WriteResult = Schemas["WriteResult"];

/**
 * A filter over metadata. Several fields, and several operators on one field, must all hold.
 *
 * The generated type is an intersection that no object with `$and` or `$or` satisfies.
 */
export interface Where {
  $and?: Where[];
  $or?: Where[];
  [field: string]: Scalar | WhereOperators | Where[] | undefined;
}

/** The names of JavaScript, and fields that may be undefined. */
type Options<T> = { [K in keyof T]?: T[K] | undefined };

type WithWhere<T extends { where?: unknown }> = Omit<T, "where"> & {
  /** Filter over metadata. */
  where?: Where | null | undefined;
};

/** A document to store. */
export type NewDocument = Omit<Schemas["NewDocument"], "embedding"> & { embedding: Embedding };

/** A collection to create. */
export type NewCollection = Options<Omit<CamelKeys<Schemas["NewCollection"]>, "name" | "hnsw">> & {
  /** Parameters of Chroma's index. They cannot be changed later. */
  hnsw?: HnswParameters | undefined;
  /**
   * With `getOrCreate`: `use` accepts an existing collection with another distance function or embedding model than
   * these options have. By default that is a `CollectionMismatch`.
   */
  ifExists?: "use" | undefined;
};

/** The documents to select. An absent field does not restrict them. */
export type Selection = WithWhere<
  Pick<CamelFilter, "whereDocument" | "where"> & {
    /** Only documents with these ids. */
    ids?: readonly string[] | undefined;
  }
>;

/** The parts of documents that are returned. */
export interface IncludeOptions {
  /** Return the embeddings: false by default. */
  includeEmbeddings?: boolean | undefined;
  /** Return the texts: true by default. Without it, they are empty. */
  includeTexts?: boolean | undefined;
}

type CamelFilter = Options<CamelKeys<Schemas["DocumentFilter"]>>;

/** The documents to list, and how. */
export type DocumentFilter = Selection & IncludeOptions & Pick<CamelFilter, "offset" | "total"> & {
  /** `next` of the previous page, to list the one that follows; without `offset`, and with a `limit` of up to 1,000. */
  after?: string | undefined;
  /**
   * Maximum number of documents: 100 by default, or with `ids` all of them. More than 1,000 are fetched in several
   * requests.
   */
  limit?: number | undefined;
};

/** The documents to iterate over, and how. */
export type IterateOptions = Selection & IncludeOptions & Pick<CamelFilter, "offset"> & {
  /** Maximum number of documents; all by default. */
  limit?: number | undefined;
  /** Number of documents in a request, 1 to 1,000: 1,000 by default. */
  pageSize?: number | undefined;
};

/** Deletes the documents with these ids that the filter selects. One of the two is required. */
export type DeleteRequest = { ids: readonly string[]; where?: Where | undefined } | { ids?: undefined; where: Where };

/** The optional fields of a similarity query. */
export type QueryOptions = IncludeOptions &
  WithWhere<Options<Omit<CamelKeys<Schemas["QueryRequest"]>, "queryEmbedding" | "include" | "exclude">>>;

/** The optional fields of a map. */
export type MapOptions = WithWhere<Options<CamelKeys<Schemas["MapRequest"]>>>;

/** New metadata of documents, by their ids. */
export type DocumentUpdates =
  | Readonly<Record<string, NonNullable<DocumentMetadata>>>
  | ReadonlyMap<string, NonNullable<DocumentMetadata>>;
