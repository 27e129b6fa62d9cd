/** A collection of a client, so that its name is given once. */

import type { Client } from "./client.js";
import type { MetadataValuesOptions } from "./collections.js";
import type { BatchOptions } from "./queries.js";
import type { GetDocumentOptions, UpdateOptions } from "./documents.js";
import type { Documents, IngestOptions } from "./ingest.js";
import type { IngestionReport, Outcome } from "./outcomes.js";
import type { CallOptions } from "./transport.js";
import type * as types from "./types.js";

/** The calls of a client on one collection. Each has the options and the errors of the client's call. */
export class CollectionHandle {
  readonly #client: Client;

  constructor(
    client: Client,
    /** The collection's name. */
    readonly name: string,
  ) {
    this.#client = client;
  }

  /** See `Client.createCollection`. */
  async create(options?: types.NewCollection & CallOptions): Promise<types.CollectionCreated> {
    return await this.#client.createCollection(this.name, options);
  }

  /** See `Client.getCollection`. */
  async get(options?: CallOptions): Promise<types.Collection> {
    return await this.#client.getCollection(this.name, options);
  }

  /** See `Client.collectionExists`. */
  async exists(options?: CallOptions): Promise<boolean> {
    return await this.#client.collectionExists(this.name, options);
  }

  /** See `Client.updateCollectionMetadata`. */
  async updateMetadata(
    metadata: types.CollectionMetadata,
    options?: { merge?: boolean | undefined } & CallOptions,
  ): Promise<types.MetadataUpdated> {
    return await this.#client.updateCollectionMetadata(this.name, metadata, options);
  }

  /** See `Client.deleteCollection`. */
  async delete(options?: CallOptions): Promise<types.CollectionDeleted> {
    return await this.#client.deleteCollection(this.name, options);
  }

  /** See `Client.metadataValues`. */
  async metadataValues(
    field: string,
    options?: MetadataValuesOptions & CallOptions,
  ): Promise<types.MetadataValues> {
    return await this.#client.metadataValues(this.name, field, options);
  }

  /** See `Client.addDocuments`. */
  async addDocuments(documents: Iterable<types.NewDocument>, options?: CallOptions): Promise<types.WriteResult> {
    return await this.#client.addDocuments(this.name, documents, options);
  }

  /** See `Client.upsertDocuments`. */
  async upsertDocuments(documents: Iterable<types.NewDocument>, options?: CallOptions): Promise<types.WriteResult> {
    return await this.#client.upsertDocuments(this.name, documents, options);
  }

  /** See `Client.ingest`. */
  ingest(source: Documents, options?: IngestOptions): AsyncGenerator<Outcome, void, undefined> {
    return this.#client.ingest(this.name, source, options);
  }

  /** See `Client.ingestAll`. */
  async ingestAll(source: Documents, options?: IngestOptions): Promise<IngestionReport> {
    return await this.#client.ingestAll(this.name, source, options);
  }

  /** See `Client.listDocuments`. */
  async listDocuments(options?: types.DocumentFilter & CallOptions): Promise<types.DocumentPage> {
    return await this.#client.listDocuments(this.name, options);
  }

  /** See `Client.iterDocuments`. */
  iterDocuments(options?: types.IterateOptions & CallOptions): AsyncGenerator<types.Document, void, undefined> {
    return this.#client.iterDocuments(this.name, options);
  }

  /** See `Client.count`. */
  async count(options?: types.Selection & CallOptions): Promise<number> {
    return await this.#client.count(this.name, options);
  }

  /** See `Client.getDocument`. */
  async getDocument(id: string, options?: GetDocumentOptions & CallOptions): Promise<types.Document> {
    return await this.#client.getDocument(this.name, id, options);
  }

  /** See `Client.getDocuments`. */
  async getDocuments(ids: Iterable<string>, options?: types.IncludeOptions & CallOptions): Promise<types.Document[]> {
    return await this.#client.getDocuments(this.name, ids, options);
  }

  /** See `Client.documentExists`. */
  async documentExists(id: string, options?: CallOptions): Promise<boolean> {
    return await this.#client.documentExists(this.name, id, options);
  }

  /** See `Client.updateDocuments`. */
  async updateDocuments(
    updates: types.DocumentUpdates,
    options?: UpdateOptions & CallOptions,
  ): Promise<types.DocumentsUpdated> {
    return await this.#client.updateDocuments(this.name, updates, options);
  }

  /** See `Client.deleteDocuments`. */
  async deleteDocuments(request: types.DeleteRequest & CallOptions): Promise<types.DeleteResult> {
    return await this.#client.deleteDocuments(this.name, request);
  }

  /** See `Client.emptyCollection`. */
  async empty(options?: CallOptions): Promise<types.DeleteAllResult> {
    return await this.#client.emptyCollection(this.name, options);
  }

  /** See `Client.query`. */
  async query(embedding: types.Embedding, options?: types.QueryOptions & CallOptions): Promise<types.QueryResults> {
    return await this.#client.query(this.name, embedding, options);
  }

  /** See `Client.queryBatch`. */
  async queryBatch(
    embeddings: Iterable<types.Embedding>,
    options?: types.QueryOptions & BatchOptions & CallOptions,
  ): Promise<types.QueryResults[]> {
    return await this.#client.queryBatch(this.name, embeddings, options);
  }
}
