/** Retrieval providers: one interface for everything that can be searched, and a registry to select them by name. */

import { InvalidConfiguration, ProviderExists, UnknownProvider } from "../errors.js";
import type { Document, Embedding, Match, Where } from "../types.js";
import type { ConnectionSchema } from "./connection_schema.js";

/** The capabilities of a provider, so that a user interface shows nothing else. */
export interface Capabilities {
  /** It lists collections. */
  collections: boolean;
  /** It searches by similarity. */
  search: boolean;
  /** It embeds texts itself. */
  embeddings: boolean;
  /** It filters by metadata. */
  metadataFiltering: boolean;
}

/** The health of a provider's service. */
export interface ProviderHealth {
  status: "healthy" | "unhealthy";
  /** Time of the check in UTC (RFC 3339). */
  timestamp: string;
  /** Why the service is unhealthy. */
  error?: string;
  /** The service's version; null when unknown. */
  version: string | null;
  /** Number of collections; null when unknown. */
  collectionCount: number | null;
  /** Size of the stored data; null when unknown. */
  storageBytes: number | null;
}

/** The options of one search. */
export interface SearchOptions {
  /** Maximum number of matches, per collection or over all of them. */
  topK: number;
  /** A filter on metadata, in the contract's language. */
  where?: Where | undefined;
  /** Omit matches with a lower score. */
  minScore?: number | undefined;
  /** Return the vectors as well. */
  includeEmbeddings?: boolean | undefined;
  /** Sent with every request, such as `x-request-id` and `traceparent`. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Aborts the search. */
  signal?: AbortSignal | undefined;
}

/** A collection that could not be searched. */
export interface SearchError {
  collection: string;
  /** The HTTP status that a search of this collection alone would return. */
  status: number;
  /** The kind of error, if the service sent one. */
  code?: string | undefined;
  detail: string;
}

/** The matches of a search in several collections. */
export interface CollectionMatches {
  /** The matches, each with its collection. */
  results: Match[];
  /** The collections that could not be searched. */
  errors: SearchError[];
}

/** A connection to a service that can be searched. It owns nothing that has to be closed. */
export interface RetrievalProvider {
  /** Get the service's health. A service that cannot be reached is unhealthy; nothing is thrown. */
  health(): Promise<ProviderHealth>;
  /** List the names of the collections. */
  collections(): Promise<string[]>;
  /**
   * Search several collections by similarity.
   *
   * @returns the matches, each with its collection, and the collections that failed or were too slow, within the
   *   configured time limit.
   * @throws RagstoreError if no collection could be searched, for one reason.
   */
  search(collections: readonly string[], embedding: Embedding, options: SearchOptions): Promise<CollectionMatches>;
  /** Read documents by their metadata, in the order of the store. */
  documents(collection: string, options?: { where?: Where | undefined; limit?: number | undefined }): Promise<Document[]>;
}

/** A kind of service that can be searched: it is registered, and makes connections. */
export interface ProviderClass {
  /** The name by which it is selected. Not `name`, which every class has. */
  readonly id: string;
  /** Its display name. */
  readonly title: string;
  readonly capabilities: Capabilities;
  /** The JSON Schema of a configuration; secrets are `writeOnly`. */
  getConnectionSchema(): ConnectionSchema;
  /**
   * Make a connection. No request is sent yet.
   *
   * @throws InvalidConfiguration if the configuration does not match the schema; the message has the path, and no value.
   */
  connect(configuration: object): RetrievalProvider;
}

/** A registered provider. */
export interface ProviderInfo {
  name: string;
  title: string;
  capabilities: Capabilities;
  connectionSchema: ConnectionSchema;
}

/** Registered providers, by name. */
export class ProviderRegistry {
  readonly #providers = new Map<string, ProviderClass>();

  /** @throws ProviderExists if another provider of that name is registered. */
  register<P extends ProviderClass>(provider: P): P {
    const known = this.#providers.get(provider.id);
    if (known && known !== provider) {
      throw new ProviderExists(`a retrieval provider '${provider.id}' is registered already`);
    }
    this.#providers.set(provider.id, provider);
    return provider;
  }

  /** List the registered providers, in the order of registration. */
  discover(): ProviderInfo[] {
    return Array.from(this.#providers.values(), (provider) => ({
      name: provider.id,
      title: provider.title,
      capabilities: provider.capabilities,
      connectionSchema: provider.getConnectionSchema(),
    }));
  }

  /**
   * Make a connection of a provider.
   *
   * @throws UnknownProvider if no provider of that name is registered; the message lists the registered ones.
   * @throws InvalidConfiguration if the configuration does not match the provider's schema.
   */
  select(name: string, configuration: object): RetrievalProvider {
    const provider = this.#providers.get(name);
    if (!provider) {
      const known = [...this.#providers.keys()].sort().join(", ") || "none";
      throw new UnknownProvider(`no retrieval provider '${name}'; registered: ${known}`);
    }
    if (typeof configuration !== "object" || (configuration as unknown) === null) {
      throw new InvalidConfiguration(`configuration of '${name}': must be an object: $`);
    }
    return provider.connect(configuration);
  }
}
