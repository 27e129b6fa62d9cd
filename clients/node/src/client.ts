/** The client: the operations of the contract as methods. */

import { bearer, checkOptions, milliseconds, type Names, parseCallOptions, parseEndpoint, validatedHeaders } from "./arguments.js";
import { camelKeys } from "./casing.js";
import { CollectionHandle } from "./collection_handle.js";
import * as collections from "./collections.js";
import { Core } from "./core.js";
import * as documents from "./documents.js";
import { InvalidConfiguration } from "./errors.js";
import { type Documents, ingest, ingestAll, type IngestOptions, type Send } from "./ingest.js";
import type { IngestionReport, Outcome } from "./outcomes.js";
import * as queries from "./queries.js";
import { DEFAULT_RETRIES, lasting, parseRetries, type Retries } from "./retry.js";
import { environmentVariable } from "./runtime.js";
import type { CallOptions, Fetch, TransportSettings } from "./transport.js";
import type * as types from "./types.js";

export const DEFAULT_URL = "http://127.0.0.1:8080";

export interface ClientOptions {
  /** Sent as `Authorization: Bearer`; the environment variable `RAGSTORE_API_KEY` by default. An empty key is no key. */
  apiKey?: string | undefined;
  /** Additional headers of every request. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Maximum time for one attempt of a call, including its response: 30,000 by default; null for no limit. */
  timeoutMs?: number | null | undefined;
  /** Maximum time for a whole call, with all retries and the delays between them; null, the default, for no limit. */
  deadlineMs?: number | null | undefined;
  /** Number of retries, or fields of the retry policy; absent ones have their defaults. */
  retries?: Retries | undefined;
  /** Sends the requests, such as a function that traces them; the global `fetch` by default. */
  fetch?: Fetch | undefined;
}

const OPTIONS: Names<ClientOptions> = {
  apiKey: true,
  headers: true,
  timeoutMs: true,
  deadlineMs: true,
  retries: true,
  fetch: true,
};

/**
 * A client of one service. Its only state is connections, which the runtime pools and closes.
 *
 * Calls reject with a `RagstoreError`. Idempotent calls are retried when the connection fails or the service is busy.
 * `addDocuments`, and `createCollection` without `getOrCreate`, are retried only if they cannot have been applied.
 * The last argument of each call is an object of options: its own, and those of every call (`CallOptions`).
 */
export class Client {
  readonly #core: Core;
  readonly #options: ClientOptions;
  readonly #settings: TransportSettings;

  /**
   * @param url the service's URL; the environment variable `RAGSTORE_URL` by default, and without it
   *   `http://127.0.0.1:8080`. A user and a password in it are sent as a header.
   * @throws InvalidConfiguration if the URL or an option is invalid.
   */
  constructor(url?: string, options: ClientOptions = {}) {
    checkOptions("Client", options, OPTIONS);
    const { timeoutMs = 30_000, deadlineMs = null, retries, fetch = (request: Request) => globalThis.fetch(request) } = options;
    if (typeof fetch !== "function") {
      throw new InvalidConfiguration("fetch must be a function");
    }
    const endpoint = parseEndpoint(url ?? environmentVariable("RAGSTORE_URL") ?? DEFAULT_URL);
    const apiKey = options.apiKey ?? (endpoint.authorization ? undefined : environmentVariable("RAGSTORE_API_KEY"));
    const authorization = apiKey ? bearer(apiKey) : endpoint.authorization;
    this.#options = options;
    this.#settings = {
      fetch,
      retries: { ...DEFAULT_RETRIES, ...parseRetries(retries) },
      timeoutMs: milliseconds("timeoutMs", timeoutMs),
      deadlineMs: milliseconds("deadlineMs", deadlineMs),
      headers: { ...validatedHeaders(options.headers ?? {}), ...(authorization !== undefined && { authorization }) },
    };
    this.#core = new Core(endpoint.url, this.#settings);
  }

  /** The service's URL, without user and password. */
  get baseUrl(): string {
    return this.#core.url;
  }

  /** A client with other options, for some calls. Headers are added to this client's. */
  withOptions(options: ClientOptions): Client {
    const headers = { ...this.#options.headers, ...options.headers };
    const client = new Client(this.baseUrl, { ...this.#options, ...options, headers });
    const { authorization } = this.#settings.headers;
    if (options.apiKey === undefined && authorization !== undefined) {
      client.#settings.headers.authorization = authorization;
    }
    return client;
  }

  // -- collections -------------------------------------------------------------------------------

  /** A handle of a collection, with the calls of this client and without its name. No request is sent. */
  collection(name: string): CollectionHandle {
    return new CollectionHandle(this, name);
  }

  /**
   * Create a collection.
   *
   * @throws Conflict if it exists, unless `getOrCreate` is true.
   * @throws CollectionMismatch if it exists with another distance function or embedding model than the options have,
   *   unless `ifExists` is `use`.
   */
  async createCollection(name: string, options?: types.NewCollection & CallOptions): Promise<types.CollectionCreated> {
    return await collections.createCollection(this.#core, name, options);
  }

  /** List collections; all of them without a `limit`. Their documents are counted if `counts` is true. */
  async listCollections(
    options?: collections.ListCollectionsOptions & CallOptions,
  ): Promise<types.CollectionPage> {
    return await collections.listCollections(this.#core, options);
  }

  /** Iterate over all collections, page by page. Their documents are counted if `counts` is true. */
  iterCollections(
    options?: collections.IterCollectionsOptions & CallOptions,
  ): AsyncGenerator<types.Collection, void, undefined> {
    return collections.iterCollections(this.#core, options);
  }

  /** Get a collection's metadata, number of documents, dimension and distance function. */
  async getCollection(name: string, options?: CallOptions): Promise<types.Collection> {
    return await collections.getCollection(this.#core, name, options);
  }

  /** Whether a collection exists, and the key may access it. */
  async collectionExists(name: string, options?: CallOptions): Promise<boolean> {
    return await collections.collectionExists(this.#core, name, options);
  }

  /** Change the given keys of a collection's metadata; null removes a key. With `merge: false`, replace all of it. */
  async updateCollectionMetadata(
    name: string,
    metadata: types.CollectionMetadata,
    options?: { merge?: boolean | undefined } & CallOptions,
  ): Promise<types.MetadataUpdated> {
    return await collections.updateCollectionMetadata(this.#core, name, metadata, options);
  }

  /** Delete a collection and all its documents. */
  async deleteCollection(name: string, options?: CallOptions): Promise<types.CollectionDeleted> {
    return await collections.deleteCollection(this.#core, name, options);
  }

  /** List the distinct values of a metadata field as strings, sorted; with `typed` also with their types, for filters. */
  async metadataValues(
    collection: string,
    field: string,
    options?: collections.MetadataValuesOptions & CallOptions,
  ): Promise<types.MetadataValues> {
    return await collections.metadataValues(this.#core, collection, field, options);
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
    added: Iterable<types.NewDocument>,
    options?: CallOptions,
  ): Promise<types.WriteResult> {
    return await documents.addDocuments(this.#core, collection, added, options);
  }

  /** Add documents, all or none, in one request. A document with an existing id replaces the stored one. */
  async upsertDocuments(
    collection: string,
    upserted: Iterable<types.NewDocument>,
    options?: CallOptions,
  ): Promise<types.WriteResult> {
    return await documents.upsertDocuments(this.#core, collection, upserted, options);
  }

  /**
   * Store any number of documents, and yield the outcome of each.
   *
   * The ingestion advances as its outcomes are iterated; `ingestAll` advances by itself. At most `concurrency` requests
   * are in flight and in memory; the source is not read meanwhile. Of a request that is rejected because of some
   * documents, exactly those fail. After an error, run it again from the last outcome or from the start: with `upsert`,
   * storing documents again has no further effect.
   *
   * @param source any iterable or stream. Each document needs an id. The last of several documents with the same id wins.
   * @returns an outcome for every document that was read, in order; then an error that ended the ingestion is thrown.
   */
  ingest(collection: string, source: Documents, options?: IngestOptions): AsyncGenerator<Outcome, void, undefined> {
    return ingest(this.#sender(collection), source, options);
  }

  /**
   * Store any number of documents, as `ingest` does, and return the counts and the failures.
   *
   * @throws RagstoreError the error that ended the ingestion, with a `report`. Rejected documents do not end it.
   */
  async ingestAll(collection: string, source: Documents, options?: IngestOptions): Promise<IngestionReport> {
    return await ingestAll(this.#sender(collection), source, options);
  }

  /** List documents in insertion order; `total` is the number of all matches. */
  async listDocuments(collection: string, options?: types.DocumentFilter & CallOptions): Promise<types.DocumentPage> {
    return await documents.listDocuments(this.#core, collection, options);
  }

  /** Iterate over all documents that a filter selects, page by page. */
  iterDocuments(
    collection: string,
    options?: types.IterateOptions & CallOptions,
  ): AsyncGenerator<types.Document, void, undefined> {
    return documents.iterDocuments(this.#core, collection, options);
  }

  /** Count the documents that a filter selects; all of them without a filter. */
  async count(collection: string, options?: types.Selection & CallOptions): Promise<number> {
    return await documents.countDocuments(this.#core, collection, options);
  }

  /**
   * Get a document.
   *
   * @throws NotFound if it does not exist.
   */
  async getDocument(
    collection: string,
    id: string,
    options?: documents.GetDocumentOptions & CallOptions,
  ): Promise<types.Document> {
    return await documents.getDocument(this.#core, collection, id, options);
  }

  /** Get any number of documents by their ids, each once, in the order of the ids. Ids that do not exist are left out. */
  async getDocuments(
    collection: string,
    ids: Iterable<string>,
    options?: types.IncludeOptions & CallOptions,
  ): Promise<types.Document[]> {
    return await documents.getDocuments(this.#core, collection, ids, options);
  }

  /**
   * Whether a document exists.
   *
   * @throws NotFound if the collection does not exist.
   */
  async documentExists(collection: string, id: string, options?: CallOptions): Promise<boolean> {
    return await documents.documentExists(this.#core, collection, id, options);
  }

  /**
   * Change the metadata of documents, all or none, in one request. Texts and embeddings stay as they are.
   *
   * @param updates the metadata by id. Keys that are not named stay, and null removes a key. With `replace`, keys that
   *   are not named are removed.
   * @throws NotFound if the collection, or one of the documents, does not exist. Nothing was changed.
   */
  async updateDocuments(
    collection: string,
    updates: types.DocumentUpdates,
    options?: documents.UpdateOptions & CallOptions,
  ): Promise<types.DocumentsUpdated> {
    return await documents.updateDocuments(this.#core, collection, updates, options);
  }

  /** Delete documents by ids, by a filter, or by both. `count` is the number that the last attempt deleted. */
  async deleteDocuments(collection: string, request: types.DeleteRequest & CallOptions): Promise<types.DeleteResult> {
    return await documents.deleteDocuments(this.#core, collection, request);
  }

  /** Delete all documents. The collection keeps its metadata, dimension and distance function. */
  async emptyCollection(collection: string, options?: CallOptions): Promise<types.DeleteAllResult> {
    return await documents.emptyCollection(this.#core, collection, options);
  }

  // -- queries -----------------------------------------------------------------------------------

  /** Find the documents nearest to an embedding. */
  async query(
    collection: string,
    embedding: types.Embedding,
    options?: types.QueryOptions & CallOptions,
  ): Promise<types.QueryResults> {
    return await queries.query(this.#core, collection, embedding, options);
  }

  /** Find the documents nearest to each of several embeddings, with several requests in flight. */
  async queryBatch(
    collection: string,
    embeddings: Iterable<types.Embedding>,
    options?: types.QueryOptions & queries.BatchOptions & CallOptions,
  ): Promise<types.QueryResults[]> {
    return await queries.queryBatch(this.#core, collection, embeddings, options);
  }

  /** Find the documents nearest to an embedding in several collections. `errors` lists those that failed. */
  async queryCollections(
    names: Iterable<string>,
    embedding: types.Embedding,
    options?: types.QueryOptions & CallOptions,
  ): Promise<types.MultiQueryResults> {
    return await queries.queryCollections(this.#core, names, embedding, options);
  }

  // -- service -----------------------------------------------------------------------------------

  /** Name, version and links of the service. */
  async info(options?: CallOptions): Promise<types.ServiceInfo> {
    return await this.#core.send((api, init) => api.GET("/", { ...init }), parseCallOptions("info", options));
  }

  /** Health of the service. An unhealthy service is a result, not an error. */
  async health(options?: CallOptions): Promise<types.Health> {
    const health = await this.#core.send<types.Schemas["Health"]>(
      (api, init) => api.GET("/health", { ...init }),
      parseCallOptions("health", options),
      { isResult: (status, body): body is types.Schemas["Health"] => hasStatus(status, body, "unhealthy") },
    );
    return { ...camelKeys(health), details: camelKeys(health.details) };
  }

  /** Liveness of the service: whether its process responds. */
  async live(options?: CallOptions): Promise<types.Probe> {
    return await this.#core.send((api, init) => api.GET("/health/live", { ...init }), parseCallOptions("live", options));
  }

  /** Readiness of the service. An unready service is a result, not an error. */
  async ready(options?: CallOptions): Promise<types.Probe> {
    return await this.#core.send<types.Probe>(
      (api, init) => api.GET("/health/ready", { ...init }),
      parseCallOptions("ready", options),
      { isResult: (status, body): body is types.Probe => hasStatus(status, body, "unready") },
    );
  }

  /** The service's metrics in the format of Prometheus. */
  async metrics(options?: CallOptions): Promise<string> {
    return await this.#core.getText("metrics", "/metrics", options);
  }

  /** The service's OpenAPI document as JSON. */
  async openapi(options?: CallOptions): Promise<string> {
    return await this.#core.getText("openapi", "/openapi.json", options);
  }

  #sender(collection: string): Send {
    return (mode, body, options, retryMs) => {
      const retries = lasting({ ...this.#settings.retries, ...parseRetries(options.retries) }, retryMs);
      return documents.writeDocuments(this.#core, mode, collection, body, { ...options, retries });
    };
  }
}

function hasStatus(status: number, body: unknown, expected: string): boolean {
  return status === 503 && (body as { status?: unknown } | null | undefined)?.status === expected;
}
