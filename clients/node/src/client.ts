/** The client: the contract's calls as methods. */

import createClient, { type Client as Api } from "openapi-fetch";

import { type Embedding, toBase64 } from "./embeddings.js";
import { checkNumbers, documentsBody, encodeDocument } from "./encoding.js";
import { InvalidInput, NotFound } from "./errors.js";
import { type CallOptions, Exchange, type Fetch } from "./exchange.js";
import { type Documents, type IngestOptions, type IngestSummary, ingest, type Outcome } from "./ingest.js";
import { DEFAULT_RETRIES, type RetryPolicy } from "./retry.js";
import type { paths } from "./schema.js";
import type {
  Collection,
  CollectionCreated,
  CollectionDeleted,
  DeleteAllResult,
  CollectionPage,
  CollectionMetadata,
  Document,
  DocumentFilter,
  DocumentPage,
  DocumentSelection,
  DeleteResult,
  WriteResult,
  Health,
  MetadataUpdated,
  MetadataValues,
  MultiQueryResults,
  NewCollection,
  NewDocument,
  Probe,
  QueryOptions,
  QueryResults,
  Schemas,
  ServiceInfo,
} from "./types.js";

export interface ClientOptions {
  /** Sent as `Authorization: Bearer`. */
  apiKey?: string;
  /** Further headers for every request. */
  headers?: Readonly<Record<string, string>>;
  /** Longest wait for the answer to one try of a call: 30,000. */
  timeoutMs?: number;
  /** When to try again; what is absent stays at its default. */
  retries?: Partial<RetryPolicy>;
  /** What sends requests, such as one that traces them. */
  fetch?: Fetch;
}

const KEPT_FAILURES = 1000;

/**
 * A client of one service. It keeps no state but connections, which Node shares and closes.
 *
 * Calls reject with a `RagstoreError`. Those that may be repeated are, when the connection fails or the service is busy;
 * `addDocuments` and `createCollection` without `get_or_create` only when nothing can have happened.
 */
export class Client {
  readonly #api: Api<paths, "application/json">;
  readonly #exchange: Exchange;

  /**
   * @param url the service's address, such as `http://127.0.0.1:8080`.
   * @throws InvalidInput when the address or a header is none.
   */
  constructor(url: string, options: ClientOptions = {}) {
    const { apiKey, headers, timeoutMs = 30_000, retries, fetch = (request: Request) => globalThis.fetch(request) } = options;
    this.#exchange = new Exchange(fetch, { ...DEFAULT_RETRIES, ...retries }, timeoutMs);
    this.#api = createClient<paths, "application/json">({
      baseUrl: checkedUrl(url),
      headers: checkedHeaders({
        Accept: "application/json",
        ...headers,
        ...(apiKey !== undefined && { Authorization: `Bearer ${apiKey}` }),
      }),
      redirect: "manual",
    });
  }

  // -- collections -------------------------------------------------------------------------------

  /**
   * Create a collection.
   *
   * @throws Conflict when it exists, unless `get_or_create`.
   */
  async createCollection(collection: NewCollection, options?: CallOptions): Promise<CollectionCreated> {
    checkNumbers(collection.metadata, "$.metadata");
    return await this.#exchange.call((init) => this.#api.POST("/collections", { ...init, body: collection }), options, {
      idempotent: collection.get_or_create === true,
    });
  }

  /** List collections, all of them without a `limit`. */
  async listCollections(
    page: { limit?: number; offset?: number } = {},
    options?: CallOptions,
  ): Promise<CollectionPage> {
    return await this.#exchange.call(
      (init) => this.#api.GET("/collections", { ...init, params: { query: page } }),
      options,
    );
  }

  /** Tell a collection's metadata, count, dimension and distance. */
  async getCollection(name: string, options?: CallOptions): Promise<Collection> {
    const params = { path: inCollection(name) };
    return await this.#exchange.call(
      (init) => this.#api.GET("/collections/{collection_name}", { ...init, params }),
      options,
    );
  }

  /** Replace a collection's metadata, or with `merge` change what is named; null then removes a key. */
  async updateMetadata(
    name: string,
    metadata: CollectionMetadata,
    { merge = false, ...options }: CallOptions & { merge?: boolean } = {},
  ): Promise<MetadataUpdated> {
    checkNumbers(metadata, "$.metadata");
    const params = { path: inCollection(name), query: { merge } };
    return await this.#exchange.call(
      (init) => this.#api.PUT("/collections/{collection_name}/metadata", { ...init, params, body: { metadata } }),
      options,
    );
  }

  /** Delete a collection and all its documents. */
  async deleteCollection(name: string, options?: CallOptions): Promise<CollectionDeleted> {
    const params = { path: inCollection(name) };
    return await this.#exchange.call(
      (init) => this.#api.DELETE("/collections/{collection_name}", { ...init, params }),
      options,
      { whenGone: { status: "deleted", name } },
    );
  }

  /** The distinct values of a metadata field, sorted, as strings. */
  async metadataValues(
    name: string,
    field: string,
    { limit, ...options }: CallOptions & { limit?: number } = {},
  ): Promise<MetadataValues> {
    const params = { path: inCollection(name), query: { field, ...(limit !== undefined && { limit }) } };
    return await this.#exchange.call(
      (init) => this.#api.GET("/collections/{collection_name}/metadata-values", { ...init, params }),
      options,
    );
  }

  // -- documents ---------------------------------------------------------------------------------

  /**
   * Store new documents, all or none, in one request.
   *
   * It is not tried again once it may have reached the service: use `upsertDocuments` where that matters.
   *
   * @throws Conflict when an id exists; the detail names them.
   */
  async addDocuments(
    collection: string,
    documents: Iterable<NewDocument>,
    options?: CallOptions,
  ): Promise<WriteResult> {
    return await this.#write("add", collection, documentsBody(Array.from(documents, encodeDocument)), options);
  }

  /** Store documents, all or none, in one request; those whose id exists are replaced. */
  async upsertDocuments(
    collection: string,
    documents: Iterable<NewDocument>,
    options?: CallOptions,
  ): Promise<WriteResult> {
    return await this.#write("upsert", collection, documentsBody(Array.from(documents, encodeDocument)), options);
  }

  /**
   * Store any number of documents, and tell what became of each.
   *
   * It runs as far as it is iterated: `ingestAll` runs by itself. Memory holds `concurrency` requests, and the source
   * is not read while that many are on their way. A request that is refused for the sake of some documents is sent
   * again in parts, so that only those fail. After an error run it again, from the last outcome or from the start:
   * with `upsert` what is stored already is stored again, to the same end.
   *
   * @param documents any iterable; each needs an id. The last of several with one id wins.
   * @returns an outcome for every document that was read, in their order; then what ended the ingestion is thrown.
   */
  ingest(
    collection: string,
    documents: Documents,
    options: IngestOptions = {},
  ): AsyncGenerator<Outcome, void, undefined> {
    const { mode = "upsert", timeoutMs } = options;
    return ingest(
      (body, signal) => this.#write(mode, collection, body, { signal, ...(timeoutMs !== undefined && { timeoutMs }) }),
      documents,
      options,
    );
  }

  /**
   * Store any number of documents, as `ingest` does, and tell what it came to.
   *
   * @throws RagstoreError what ended the ingestion early; documents that the service refused do not.
   */
  async ingestAll(collection: string, documents: Documents, options: IngestOptions = {}): Promise<IngestSummary> {
    let last = { read: 0, stored: 0, failed: 0, requests: 0 };
    const failures: Outcome[] = [];
    const onProgress: IngestOptions["onProgress"] = (progress) => {
      last = progress;
      options.onProgress?.(progress);
    };
    for await (const outcome of this.ingest(collection, documents, { ...options, onProgress })) {
      if (!outcome.stored && failures.length < KEPT_FAILURES) {
        failures.push(outcome);
      }
    }
    return { ...last, failures };
  }

  /** A page of documents in insertion order; `total` counts all matches. */
  async listDocuments(collection: string, filter: DocumentFilter = {}, options?: CallOptions): Promise<DocumentPage> {
    const path = inCollection(collection);
    const { where, where_document, ids, ...page } = filter;
    if ((where ?? where_document ?? ids) == null) {
      const params = { path, query: page };
      return await this.#exchange.call(
        (init) => this.#api.GET("/collections/{collection_name}/documents", { ...init, params }),
        options,
      );
    }
    // Filters may be too long for a URL.
    const body = filter as Schemas["DocumentFilter"];
    return await this.#exchange.call(
      (init) => this.#api.POST("/collections/{collection_name}/documents/filter", { ...init, params: { path }, body }),
      options,
    );
  }

  /** All documents that a filter selects, page by page; `limit` is the size of a page. */
  async *eachDocument(
    collection: string,
    filter: DocumentFilter = {},
    options?: CallOptions,
  ): AsyncGenerator<Document, void, undefined> {
    let offset = filter.offset ?? 0;
    for (;;) {
      const page = await this.listDocuments(collection, { limit: 1000, ...filter, offset, total: false }, options);
      if (page.count === 0) {
        return;
      }
      yield* page.documents;
      offset += page.count;
    }
  }

  /**
   * Look a document up.
   *
   * @throws NotFound when there is none.
   */
  async getDocument(
    collection: string,
    id: string,
    { include = [], ...options }: CallOptions & { include?: "embedding"[] } = {},
  ): Promise<Document> {
    if (id === "." || id === "..") {
      // These are taken out of a path, encoded or not.
      const [found] = (await this.listDocuments(collection, { ids: [id], include, total: false }, options)).documents;
      if (!found) {
        throw new NotFound({ status: 404, title: "Document not found", detail: `Document '${id}' not found` });
      }
      return found;
    }
    if (id === "") {
      throw new InvalidInput("an id must not be empty");
    }
    const params = { path: { ...inCollection(collection), document_id: id }, query: { include } };
    return await this.#exchange.call(
      (init) => this.#api.GET("/collections/{collection_name}/documents/{document_id}", { ...init, params }),
      options,
    );
  }

  /** Delete documents by ids, by a filter, or by both. `count` tells how many the last try really deleted. */
  async deleteDocuments(
    collection: string,
    selection: DocumentSelection,
    options?: CallOptions,
  ): Promise<DeleteResult> {
    const params = { path: inCollection(collection) };
    const body = selection as Schemas["DeleteRequest"];
    return await this.#exchange.call(
      (init) => this.#api.POST("/collections/{collection_name}/documents/delete", { ...init, params, body }),
      options,
    );
  }

  /** Delete all documents; metadata, dimension and distance stay. */
  async emptyCollection(collection: string, options?: CallOptions): Promise<DeleteAllResult> {
    const params = { path: inCollection(collection) };
    return await this.#exchange.call(
      (init) => this.#api.DELETE("/collections/{collection_name}/documents/all", { ...init, params }),
      options,
    );
  }

  // -- similarity --------------------------------------------------------------------------------

  /** The documents nearest to an embedding. */
  async query(
    collection: string,
    embedding: Embedding,
    { signal, timeoutMs, ...query }: QueryOptions & CallOptions = {},
  ): Promise<QueryResults> {
    const params = { path: inCollection(collection) };
    const body = { ...query, query_embedding: toBase64(embedding) } as Schemas["QueryRequest"];
    return await this.#exchange.call(
      (init) => this.#api.POST("/collections/{collection_name}/query", { ...init, params, body }),
      given({ signal, timeoutMs }),
    );
  }

  /** The documents nearest to an embedding in several collections; `errors` names those that failed. */
  async queryCollections(
    collections: readonly string[],
    embedding: Embedding,
    { signal, timeoutMs, ...query }: QueryOptions & CallOptions = {},
  ): Promise<MultiQueryResults> {
    const body = { ...query, collections, query_embedding: toBase64(embedding) } as Schemas["MultiQueryRequest"];
    return await this.#exchange.call(
      (init) => this.#api.POST("/query", { ...init, body }),
      given({ signal, timeoutMs }),
    );
  }

  // -- service -----------------------------------------------------------------------------------

  /** Name, version and links. */
  async info(options?: CallOptions): Promise<ServiceInfo> {
    return await this.#exchange.call((init) => this.#api.GET("/", { ...init }), options);
  }

  /** Whether the service can do its work; unhealthy is an answer too. */
  async health(options?: CallOptions): Promise<Health> {
    const isAnswer = (status: number, body: unknown): body is Health => hasStatus(status, body, "unhealthy");
    return await this.#exchange.call<Health>((init) => this.#api.GET("/health", { ...init }), options, { isAnswer });
  }

  /** Whether the service may be sent requests; unready is an answer too. */
  async ready(options?: CallOptions): Promise<Probe> {
    const isAnswer = (status: number, body: unknown): body is Probe => hasStatus(status, body, "unready");
    return await this.#exchange.call<Probe>((init) => this.#api.GET("/health/ready", { ...init }), options, {
      isAnswer,
    });
  }

  async #write(
    mode: "upsert" | "add",
    collection: string,
    encoded: string,
    options?: CallOptions,
  ): Promise<WriteResult> {
    const request = {
      params: { path: inCollection(collection) },
      body: { documents: [] },
      bodySerializer: () => encoded,
    };
    return mode === "add"
      ? await this.#exchange.call(
          (init) => this.#api.POST("/collections/{collection_name}/documents", { ...init, ...request }),
          options,
          { idempotent: false },
        )
      : await this.#exchange.call(
          (init) => this.#api.PUT("/collections/{collection_name}/documents", { ...init, ...request }),
          options,
        );
  }
}

function inCollection(name: string): { collection_name: string } {
  if (name === "" || name === "." || name === "..") {
    throw new InvalidInput(`'${name}' is no name of a collection`);
  }
  return { collection_name: name };
}

function given({ signal, timeoutMs }: { [K in keyof CallOptions]: CallOptions[K] | undefined }): CallOptions {
  return { ...(signal && { signal }), ...(timeoutMs !== undefined && { timeoutMs }) };
}

function hasStatus(status: number, body: unknown, expected: string): boolean {
  return status === 503 && (body as { status?: unknown } | null | undefined)?.status === expected;
}

function checkedUrl(url: string): string {
  // The address is not repeated: it may hold a password.
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !["http:", "https:"].includes(parsed.protocol)) {
    throw new InvalidInput("the service's address must be an http:// or https:// URL");
  }
  if (parsed.username || parsed.password || parsed.search || parsed.hash) {
    throw new InvalidInput("the service's address must be without user, query and fragment");
  }
  return parsed.href.replace(/\/+$/, "");
}

function checkedHeaders(headers: Record<string, string>): Record<string, string> {
  try {
    new Headers(headers);
  } catch {
    // The cause would repeat the value, which may be the key.
    throw new InvalidInput("a header or the key holds what a header cannot");
  }
  return headers;
}
