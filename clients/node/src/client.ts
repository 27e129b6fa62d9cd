/** The client: the operations of the contract as methods. */

import createClient, { type Client as Api } from "openapi-fetch";

import { validatedHeaders, validatedUrl, collectionPath } from "./arguments.js";
import { toBase64 } from "./embeddings.js";
import { checkNumbers, documentsBody, encodeDocument } from "./encoding.js";
import { InvalidInput, NotFound } from "./errors.js";
import { type Documents, type IngestOptions, type IngestSummary, ingest, type Outcome } from "./ingest.js";
import { DEFAULT_RETRIES, type RetryPolicy } from "./retry.js";
import type { paths } from "./schema.js";
import { type CallOptions, type Fetch, Transport } from "./transport.js";
import type {
  Collection,
  CollectionCreated,
  CollectionDeleted,
  CollectionMetadata,
  CollectionPage,
  DeleteAllResult,
  DeleteRequest,
  DeleteResult,
  Document,
  DocumentFilter,
  DocumentPage,
  Embedding,
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
  WriteResult,
} from "./types.js";

export interface ClientOptions {
  /** Sent as `Authorization: Bearer`. */
  apiKey?: string;
  /** Additional headers of every request. */
  headers?: Readonly<Record<string, string>>;
  /** Maximum time for one attempt of a call, including its response: 30,000 by default. */
  timeoutMs?: number;
  /** Retry policy; absent fields have their defaults. */
  retries?: Partial<RetryPolicy>;
  /** Sends the requests, such as a function that traces them; the global `fetch` by default. */
  fetch?: Fetch;
}

const MAX_FAILURES = 1000;

/**
 * A client of one service. Its only state is connections, which Node pools and closes.
 *
 * Calls reject with a `RagstoreError`. Idempotent calls are retried when the connection fails or the service is busy.
 * `addDocuments`, and `createCollection` without `get_or_create`, are retried only if they cannot have been applied.
 */
export class Client {
  readonly #api: Api<paths, "application/json">;
  readonly #transport: Transport;

  /**
   * @param url the service's URL, such as `http://127.0.0.1:8080`.
   * @throws InvalidInput if the URL or a header is invalid.
   */
  constructor(url: string, options: ClientOptions = {}) {
    const { apiKey, headers, timeoutMs = 30_000, retries, fetch = (request: Request) => globalThis.fetch(request) } = options;
    this.#transport = new Transport(fetch, { ...DEFAULT_RETRIES, ...retries }, timeoutMs);
    this.#api = createClient<paths, "application/json">({
      baseUrl: validatedUrl(url),
      headers: validatedHeaders({
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
   * @throws Conflict if it exists, unless `get_or_create` is true.
   */
  async createCollection(collection: NewCollection, options?: CallOptions): Promise<CollectionCreated> {
    checkNumbers(collection.metadata, "$.metadata");
    return await this.#transport.send((init) => this.#api.POST("/collections", { ...init, body: collection }), options, {
      idempotent: collection.get_or_create === true,
    });
  }

  /** List collections; all of them without a `limit`. Their documents are counted if `counts` is true. */
  async listCollections(
    page: { limit?: number; offset?: number; counts?: boolean } = {},
    options?: CallOptions,
  ): Promise<CollectionPage> {
    return await this.#transport.send(
      (init) => this.#api.GET("/collections", { ...init, params: { query: page } }),
      options,
    );
  }

  /** Get a collection's metadata, number of documents, dimension and distance function. */
  async getCollection(name: string, options?: CallOptions): Promise<Collection> {
    const params = { path: collectionPath(name) };
    return await this.#transport.send(
      (init) => this.#api.GET("/collections/{collection_name}", { ...init, params }),
      options,
    );
  }

  /** Replace a collection's metadata. With `merge`, change only the given keys; null removes a key. */
  async updateMetadata(
    name: string,
    metadata: CollectionMetadata,
    { merge = false, ...options }: CallOptions & { merge?: boolean } = {},
  ): Promise<MetadataUpdated> {
    checkNumbers(metadata, "$.metadata");
    const params = { path: collectionPath(name), query: { merge } };
    return await this.#transport.send(
      (init) => this.#api.PUT("/collections/{collection_name}/metadata", { ...init, params, body: { metadata } }),
      options,
    );
  }

  /** Delete a collection and all its documents. */
  async deleteCollection(name: string, options?: CallOptions): Promise<CollectionDeleted> {
    const params = { path: collectionPath(name) };
    return await this.#transport.send(
      (init) => this.#api.DELETE("/collections/{collection_name}", { ...init, params }),
      options,
      { resultIfGone: { status: "deleted", name } },
    );
  }

  /** List the distinct values of a metadata field as strings, sorted. */
  async metadataValues(
    name: string,
    field: string,
    { limit, ...options }: CallOptions & { limit?: number } = {},
  ): Promise<MetadataValues> {
    const params = { path: collectionPath(name), query: { field, ...(limit !== undefined && { limit }) } };
    return await this.#transport.send(
      (init) => this.#api.GET("/collections/{collection_name}/metadata-values", { ...init, params }),
      options,
    );
  }

  // -- documents ---------------------------------------------------------------------------------

  /**
   * Add documents, all or none, in one request.
   *
   * The call is not retried if it may have reached the service. Use `upsertDocuments` for calls that must be retried.
   *
   * @throws Conflict if an id exists; the detail lists them.
   */
  async addDocuments(
    collection: string,
    documents: Iterable<NewDocument>,
    options?: CallOptions,
  ): Promise<WriteResult> {
    return await this.#write("add", collection, documentsBody(Array.from(documents, encodeDocument)), options);
  }

  /** Add documents, all or none, in one request. A document with an existing id replaces the stored one. */
  async upsertDocuments(
    collection: string,
    documents: Iterable<NewDocument>,
    options?: CallOptions,
  ): Promise<WriteResult> {
    return await this.#write("upsert", collection, documentsBody(Array.from(documents, encodeDocument)), options);
  }

  /**
   * Store any number of documents, and yield the outcome of each.
   *
   * The ingestion advances as its outcomes are iterated; `ingestAll` advances by itself. At most `concurrency` requests
   * are in flight and in memory; the source is not read meanwhile. A request that is rejected because of some documents
   * is split and sent again, so that only those fail. After an error, run it again from the last outcome or from the
   * start: with `upsert`, storing documents again has no further effect.
   *
   * @param documents any iterable. Each document needs an id. The last of several documents with the same id wins.
   * @returns an outcome for every document that was read, in order; then an error that ended the ingestion is thrown.
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
   * Store any number of documents, as `ingest` does, and return a summary.
   *
   * @throws RagstoreError the error that ended the ingestion. Rejected documents do not end it.
   */
  async ingestAll(collection: string, documents: Documents, options: IngestOptions = {}): Promise<IngestSummary> {
    let last = { read: 0, stored: 0, failed: 0, requests: 0 };
    const failures: Outcome[] = [];
    const onProgress: IngestOptions["onProgress"] = (progress) => {
      last = progress;
      options.onProgress?.(progress);
    };
    for await (const outcome of this.ingest(collection, documents, { ...options, onProgress })) {
      if (!outcome.stored && failures.length < MAX_FAILURES) {
        failures.push(outcome);
      }
    }
    return { ...last, failures };
  }

  /** List documents in insertion order; `total` is the number of all matches. */
  async listDocuments(collection: string, filter: DocumentFilter = {}, options?: CallOptions): Promise<DocumentPage> {
    const path = collectionPath(collection);
    const { where, where_document, ids, ...page } = filter;
    if ((where ?? where_document ?? ids) == null) {
      const params = { path, query: page };
      return await this.#transport.send(
        (init) => this.#api.GET("/collections/{collection_name}/documents", { ...init, params }),
        options,
      );
    }
    // Filters may be too long for a URL.
    const body = filter as Schemas["DocumentFilter"];
    return await this.#transport.send(
      (init) => this.#api.POST("/collections/{collection_name}/documents/filter", { ...init, params: { path }, body }),
      options,
    );
  }

  /** Iterate over all documents that a filter selects, page by page; `limit` is the size of a page. */
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
   * Get a document.
   *
   * @throws NotFound if it does not exist.
   */
  async getDocument(
    collection: string,
    id: string,
    { include = [], ...options }: CallOptions & { include?: "embedding"[] } = {},
  ): Promise<Document> {
    if (id === "." || id === "..") {
      // URL parsers remove these segments from a path, even if they are encoded.
      const [found] = (await this.listDocuments(collection, { ids: [id], include, total: false }, options)).documents;
      if (!found) {
        throw new NotFound({
          status: 404,
          code: "document_not_found",
          title: "Document not found",
          detail: `Document '${id}' not found in collection '${collection}'`,
        });
      }
      return found;
    }
    if (id === "") {
      throw new InvalidInput("an id must not be empty");
    }
    const params = { path: { ...collectionPath(collection), document_id: id }, query: { include } };
    return await this.#transport.send(
      (init) => this.#api.GET("/collections/{collection_name}/documents/{document_id}", { ...init, params }),
      options,
    );
  }

  /** Delete documents by ids, by a filter, or by both. `count` is the number that the last attempt deleted. */
  async deleteDocuments(
    collection: string,
    request: DeleteRequest,
    options?: CallOptions,
  ): Promise<DeleteResult> {
    const params = { path: collectionPath(collection) };
    const body = request as Schemas["DeleteRequest"];
    return await this.#transport.send(
      (init) => this.#api.POST("/collections/{collection_name}/documents/delete", { ...init, params, body }),
      options,
    );
  }

  /** Delete all documents. The collection keeps its metadata, dimension and distance function. */
  async emptyCollection(collection: string, options?: CallOptions): Promise<DeleteAllResult> {
    const params = { path: collectionPath(collection) };
    return await this.#transport.send(
      (init) => this.#api.DELETE("/collections/{collection_name}/documents/all", { ...init, params }),
      options,
    );
  }

  // -- queries -----------------------------------------------------------------------------------

  /** Find the documents nearest to an embedding. */
  async query(
    collection: string,
    embedding: Embedding,
    { signal, timeoutMs, ...query }: QueryOptions & CallOptions = {},
  ): Promise<QueryResults> {
    const params = { path: collectionPath(collection) };
    const body = { ...query, query_embedding: toBase64(embedding) } as Schemas["QueryRequest"];
    return await this.#transport.send(
      (init) => this.#api.POST("/collections/{collection_name}/query", { ...init, params, body }),
      callOptions({ signal, timeoutMs }),
    );
  }

  /** Find the documents nearest to an embedding in several collections. `errors` lists those that failed. */
  async queryCollections(
    collections: readonly string[],
    embedding: Embedding,
    { signal, timeoutMs, ...query }: QueryOptions & CallOptions = {},
  ): Promise<MultiQueryResults> {
    const body = { ...query, collections, query_embedding: toBase64(embedding) } as Schemas["MultiQueryRequest"];
    return await this.#transport.send(
      (init) => this.#api.POST("/query", { ...init, body }),
      callOptions({ signal, timeoutMs }),
    );
  }

  // -- service -----------------------------------------------------------------------------------

  /** Name, version and links of the service. */
  async info(options?: CallOptions): Promise<ServiceInfo> {
    return await this.#transport.send((init) => this.#api.GET("/", { ...init }), options);
  }

  /** Health of the service. An unhealthy service is a result, not an error. */
  async health(options?: CallOptions): Promise<Health> {
    const isResult = (status: number, body: unknown): body is Health => hasStatus(status, body, "unhealthy");
    return await this.#transport.send<Health>((init) => this.#api.GET("/health", { ...init }), options, { isResult });
  }

  /** Readiness of the service. An unready service is a result, not an error. */
  async ready(options?: CallOptions): Promise<Probe> {
    const isResult = (status: number, body: unknown): body is Probe => hasStatus(status, body, "unready");
    return await this.#transport.send<Probe>((init) => this.#api.GET("/health/ready", { ...init }), options, {
      isResult,
    });
  }

  async #write(
    mode: "upsert" | "add",
    collection: string,
    encoded: string,
    options?: CallOptions,
  ): Promise<WriteResult> {
    const request = {
      params: { path: collectionPath(collection) },
      body: { documents: [] },
      bodySerializer: () => encoded,
    };
    return mode === "add"
      ? await this.#transport.send(
          (init) => this.#api.POST("/collections/{collection_name}/documents", { ...init, ...request }),
          options,
          { idempotent: false },
        )
      : await this.#transport.send(
          (init) => this.#api.PUT("/collections/{collection_name}/documents", { ...init, ...request }),
          options,
        );
  }
}

function callOptions({ signal, timeoutMs }: { [K in keyof CallOptions]: CallOptions[K] | undefined }): CallOptions {
  return { ...(signal && { signal }), ...(timeoutMs !== undefined && { timeoutMs }) };
}

function hasStatus(status: number, body: unknown, expected: string): boolean {
  return status === 503 && (body as { status?: unknown } | null | undefined)?.status === expected;
}
