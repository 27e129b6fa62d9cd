/** ragstore as a retrieval provider. */

import { Client } from "../client.js";
import { describe, RagstoreError } from "../errors.js";
import type { Fetch } from "../transport.js";
import type { Document, Embedding, Where } from "../types.js";
import { type ConnectionSchema, TIMEOUT_MEMBER, URL_MEMBER, validateConfiguration } from "./connection_schema.js";
import { merged, searchJointly } from "./fanout.js";
import type { Capabilities, CollectionMatches, ProviderHealth, RetrievalProvider, SearchOptions } from "./providers.js";

/** Maximum number of collections that the service searches in one call. */
const MAX_COLLECTIONS = 256;

/** A ragstore service. */
export interface RagstoreConnection {
  url: string;
  apiKey?: string | undefined;
  timeoutMs?: number | undefined;
}

const SCHEMA: ConnectionSchema = {
  title: "RagstoreConnection",
  type: "object",
  properties: {
    url: URL_MEMBER,
    apiKey: { type: "string", title: "API key", writeOnly: true, format: "password" },
    timeoutMs: TIMEOUT_MEMBER,
  },
  required: ["url"],
  additionalProperties: false,
};

/** Searches a ragstore service. */
export class RagstoreProvider implements RetrievalProvider {
  static readonly id = "ragstore";
  static readonly title = "ragstore";
  static readonly capabilities: Capabilities = {
    collections: true,
    search: true,
    embeddings: false,
    metadataFiltering: true,
  };

  readonly #client: Client;
  readonly #timeoutMs: number;

  constructor({ url, apiKey = "", timeoutMs = 5_000 }: RagstoreConnection, fetch?: Fetch) {
    this.#timeoutMs = timeoutMs;
    // One quick retry within the time limit: a user waits for the call.
    const retries = { attempts: 2, baseMs: 100, budgetMs: timeoutMs };
    this.#client = new Client(url, { apiKey, timeoutMs, deadlineMs: timeoutMs, retries, fetch });
  }

  static getConnectionSchema(): ConnectionSchema {
    return SCHEMA;
  }

  static connect(configuration: object): RagstoreProvider {
    return new RagstoreProvider(validateConfiguration(SCHEMA, configuration, this.id) as RagstoreConnection);
  }

  async health(): Promise<ProviderHealth> {
    try {
      const { status, timestamp, version, collectionsCount, details, error } = await this.#client.health();
      return {
        status,
        timestamp,
        ...(error !== undefined && { error }),
        version,
        collectionCount: collectionsCount,
        storageBytes: details.storageBytes,
      };
    } catch (error) {
      return unhealthy(error);
    }
  }

  async collections(): Promise<string[]> {
    const names: string[] = [];
    for await (const { name } of this.#client.iterCollections({ counts: false })) {
      names.push(name);
    }
    return names;
  }

  async search(collections: readonly string[], embedding: Embedding, options: SearchOptions): Promise<CollectionMatches> {
    const { topK, where, minScore, includeEmbeddings = false, headers, signal } = options;
    const search = async (some: string[], abort: AbortSignal): Promise<CollectionMatches> => {
      const query = { topK, where, minScore, includeEmbeddings, headers, signal: abort };
      const { results, errors = [] } = await this.#client.queryCollections(some, embedding, query);
      return { results, errors };
    };
    const names = [...new Set(collections)];
    const groups = Array.from({ length: Math.ceil(names.length / MAX_COLLECTIONS) }, (_, group) =>
      names.slice(group * MAX_COLLECTIONS, (group + 1) * MAX_COLLECTIONS),
    );
    return merged(await Promise.all(groups.map((group) => searchJointly(group, search, this.#timeoutMs, signal))));
  }

  async documents(
    collection: string,
    { where, limit = 1000 }: { where?: Where | undefined; limit?: number | undefined } = {},
  ): Promise<Document[]> {
    const found: Document[] = [];
    for await (const document of this.#client.iterDocuments(collection, { where, limit })) {
      found.push(document);
    }
    return found;
  }
}

/** The health of a service that cannot be reached. */
export function unhealthy(error: unknown): ProviderHealth {
  if (!(error instanceof RagstoreError)) {
    throw error;
  }
  const timestamp = new Date().toISOString();
  const unknown = { version: null, collectionCount: null, storageBytes: null };
  return { status: "unhealthy", timestamp, error: describe(error), ...unknown };
}
