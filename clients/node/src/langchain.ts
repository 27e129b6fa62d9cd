/** ragstore as a vector store of LangChain.js, and the search tool of an agent. They need `@langchain/core`, which the application installs. */

import { Document, type DocumentInterface } from "@langchain/core/documents";
import type { EmbeddingsInterface } from "@langchain/core/embeddings";
import { maximalMarginalRelevance } from "@langchain/core/utils/math";
import { type MaxMarginalRelevanceSearchOptions, VectorStore } from "@langchain/core/vectorstores";

export {
  type ArchiveHit,
  type ArchiveToolOptions,
  createArchiveSearchTool,
  type SearchArtifact,
} from "./archive_tool.js";

import { Client } from "./client.js";
import { InvalidInput } from "./errors.js";
import type { IngestOptions } from "./ingest.js";
import { randomId } from "./runtime.js";
import type { DeleteRequest, Distance, Match, NewDocument, Where } from "./types.js";

/** Where the documents of a vector store are. */
export interface RagstoreConfig {
  /** The collection. It is created when documents are added, if it does not exist. */
  collectionName: string;
  /** The client; by default a new one for `RAGSTORE_URL` with `RAGSTORE_API_KEY`. */
  client?: Client | undefined;
  /** Distance function of a collection that is created: `cosine` by default. */
  distance?: Distance | undefined;
  /** Name of the embedding model, stored in the metadata of a collection that is created. */
  embeddingModel?: string | undefined;
}

/** The options of adding documents. */
export type AddOptions = IngestOptions & {
  /** The ids; by default those of the documents, and random ones for documents without an id. */
  ids?: readonly string[] | undefined;
};

/**
 * A collection of ragstore as a vector store.
 *
 * A filter is a `where` of ragstore. Scores grow with similarity. ragstore stores no nested metadata: `{ loc: { page: 3 } }`
 * is stored as `{ "loc.page": 3 }`.
 */
export class RagstoreVectorStore extends VectorStore {
  declare FilterType: Where;

  readonly #client: Client;
  readonly #config: RagstoreConfig;
  #created: Promise<unknown> | undefined;

  constructor(embeddings: EmbeddingsInterface, config: RagstoreConfig) {
    // LangChain may serialize these fields, so the client, which may have a key, is not among them.
    super(embeddings, { collectionName: config.collectionName });
    this.#client = config.client ?? new Client();
    this.#config = config;
  }

  /** A store with documents made of texts. `metadatas` is one for all of them, or an array with one for each. */
  static override async fromTexts(
    texts: string[],
    metadatas: object[] | object,
    embeddings: EmbeddingsInterface,
    config: RagstoreConfig,
  ): Promise<RagstoreVectorStore> {
    const documents = texts.map((pageContent, index) => {
      const metadata = (Array.isArray(metadatas) ? metadatas[index] : metadatas) as Record<string, unknown> | undefined;
      return new Document({ pageContent, metadata: metadata ?? {} });
    });
    return await RagstoreVectorStore.fromDocuments(documents, embeddings, config);
  }

  /** A store with documents. */
  static override async fromDocuments(
    documents: DocumentInterface[],
    embeddings: EmbeddingsInterface,
    config: RagstoreConfig,
  ): Promise<RagstoreVectorStore> {
    const store = new RagstoreVectorStore(embeddings, config);
    await store.addDocuments(documents);
    return store;
  }

  override _vectorstoreType(): string {
    return "ragstore";
  }

  /**
   * Embed and store documents. A document with an existing id replaces the stored one.
   *
   * @returns their ids.
   * @throws IngestionFailed if documents were rejected. All others are stored.
   */
  override async addDocuments(documents: DocumentInterface[], options?: AddOptions): Promise<string[]> {
    const vectors = await this.embeddings.embedDocuments(documents.map(({ pageContent }) => pageContent));
    return await this.addVectors(vectors, documents, options);
  }

  /** Store documents with their vectors, as `addDocuments` does. */
  override async addVectors(
    vectors: number[][],
    documents: DocumentInterface[],
    { ids, ...options }: AddOptions = {},
  ): Promise<string[]> {
    if (vectors.length !== documents.length || (ids && ids.length !== documents.length)) {
      throw new InvalidInput("there must be a vector, and if ids are given an id, for each document");
    }
    const added = documents.map(({ pageContent, metadata, id }, index) => ({
      id: ids?.[index] ?? id ?? randomId(),
      text: pageContent,
      embedding: vectors[index] ?? [],
      metadata: flat(metadata) as NonNullable<NewDocument["metadata"]>,
    }));
    await this.#ensureCollection();
    const report = await this.#client.ingestAll(this.#config.collectionName, added, options);
    report.raiseForFailures();
    return added.map(({ id }) => id);
  }

  /** Delete documents by ids, by a filter (`where`), or by both. */
  override async delete(request: DeleteRequest): Promise<void> {
    await this.#client.deleteDocuments(this.#config.collectionName, request);
  }

  override async similaritySearchVectorWithScore(
    query: number[],
    k: number,
    filter?: this["FilterType"],
  ): Promise<[Document, number][]> {
    const { results } = await this.#client.query(this.#config.collectionName, query, { topK: k, where: filter });
    return results.map((match) => [documentOf(match), match.score]);
  }

  /** Find documents that are similar to the query and different from each other. */
  override async maxMarginalRelevanceSearch(
    query: string,
    { k, fetchK = 20, lambda = 0.5, filter }: MaxMarginalRelevanceSearchOptions<this["FilterType"]>,
  ): Promise<Document[]> {
    const vector = await this.embeddings.embedQuery(query);
    const options = { topK: Math.max(fetchK, k), where: filter, includeEmbeddings: true };
    const { results } = await this.#client.query(this.#config.collectionName, vector, options);
    const embeddings = results.map(({ embedding = [] }) => embedding);
    const indexes = maximalMarginalRelevance(vector, embeddings, lambda, k);
    return indexes.flatMap((index) => results.slice(index, index + 1).map(documentOf));
  }

  async #ensureCollection(): Promise<void> {
    const { collectionName, distance, embeddingModel } = this.#config;
    this.#created ??= this.#client.createCollection(collectionName, { getOrCreate: true, distance, embeddingModel });
    try {
      await this.#created;
    } catch (error) {
      this.#created = undefined;
      throw error;
    }
  }
}

function documentOf({ id, text, metadata }: Match): Document {
  return new Document({ id, pageContent: text, metadata });
}

/** Metadata without nested objects, as ragstore stores it. */
function flat(metadata: Record<string, unknown>, prefix = ""): Record<string, unknown> {
  const entries = Object.entries(metadata).flatMap(([key, value]) =>
    isPlainObject(value) ? Object.entries(flat(value, `${prefix}${key}.`)) : [[`${prefix}${key}`, value] as const],
  );
  return Object.fromEntries(entries);
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
