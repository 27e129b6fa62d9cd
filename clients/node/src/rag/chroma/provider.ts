/** A plain Chroma server as a retrieval provider, read through its v2 API. */

import { parseEndpoint } from "../../arguments.js";
import { toFloat32 } from "../../embeddings.js";
import { BadRequest } from "../../errors.js";
import { type Fetch, plainAttempt, Transport } from "../../transport.js";
import type { CallOptions, Document, Embedding, Where } from "../../types.js";
import {
  type ChromaCollection,
  type ChromaQueryResult,
  type ChromaRecords,
  matchesOf,
  toChromaWhere,
  withoutNulls,
} from "./calls.js";
import { type ConnectionSchema, TIMEOUT_MEMBER, URL_MEMBER, validateConfiguration } from "../connection_schema.js";
import { searchEach } from "../fanout.js";
import type { Capabilities, CollectionMatches, ProviderHealth, RetrievalProvider, SearchOptions } from "../providers.js";
import { unhealthy } from "../ragstore_provider.js";

const PAGE_SIZE = 500;

/** A Chroma server. */
export interface ChromaConnection {
  url: string;
  tenant?: string | undefined;
  database?: string | undefined;
  /** Sent as `X-Chroma-Token`. */
  token?: string | undefined;
  timeoutMs?: number | undefined;
}

const SCHEMA: ConnectionSchema = {
  title: "ChromaConnection",
  type: "object",
  properties: {
    url: { ...URL_MEMBER, description: "Base URL of the server." },
    tenant: { type: "string", title: "Tenant", minLength: 1, default: "default_tenant" },
    database: { type: "string", title: "Database", minLength: 1, default: "default_database" },
    token: { type: "string", title: "Token", description: "Sent as X-Chroma-Token.", writeOnly: true, format: "password" },
    timeoutMs: TIMEOUT_MEMBER,
  },
  required: ["url"],
  additionalProperties: false,
};

/** Searches a plain Chroma server. */
export class ChromaProvider implements RetrievalProvider {
  static readonly id = "chroma";
  static readonly title = "Chroma";
  static readonly capabilities: Capabilities = {
    collections: true,
    search: true,
    embeddings: false,
    metadataFiltering: true,
  };

  readonly #transport: Transport;
  readonly #timeoutMs: number;
  readonly #url: string;
  readonly #database: string;

  constructor(connection: ChromaConnection, fetch: Fetch = (request) => globalThis.fetch(request)) {
    const { url, tenant = "default_tenant", database = "default_database", token, timeoutMs = 5_000 } = connection;
    const endpoint = parseEndpoint(url);
    this.#timeoutMs = timeoutMs;
    this.#url = `${endpoint.url}/api/v2`;
    this.#database = `/tenants/${encodeURIComponent(tenant)}/databases/${encodeURIComponent(database)}`;
    this.#transport = new Transport({
      fetch,
      retries: { attempts: 2, baseMs: 100, capMs: 1_000, budgetMs: timeoutMs },
      timeoutMs,
      deadlineMs: timeoutMs,
      headers: {
        ...(endpoint.authorization !== undefined && { authorization: endpoint.authorization }),
        ...(token !== undefined && { "x-chroma-token": token }),
      },
    });
  }

  static getConnectionSchema(): ConnectionSchema {
    return SCHEMA;
  }

  static connect(configuration: object): ChromaProvider {
    return new ChromaProvider(validateConfiguration(SCHEMA, configuration, this.id) as ChromaConnection);
  }

  async health(): Promise<ProviderHealth> {
    const timestamp = new Date().toISOString();
    try {
      await this.#send("GET", "/heartbeat");
      const version = await this.#send<string>("GET", "/version");
      const collectionCount = await this.#send<number>("GET", `${this.#database}/collections_count`);
      return { status: "healthy", timestamp, version, collectionCount, storageBytes: null };
    } catch (error) {
      return unhealthy(error);
    }
  }

  async collections(): Promise<string[]> {
    const names: string[] = [];
    for (;;) {
      const path = `${this.#database}/collections?limit=${PAGE_SIZE}&offset=${names.length}`;
      const page = await this.#send<ChromaCollection[]>("GET", path);
      names.push(...page.map(({ name }) => name));
      if (page.length === 0) {
        return names;
      }
    }
  }

  async search(collections: readonly string[], embedding: Embedding, options: SearchOptions): Promise<CollectionMatches> {
    // Chroma accepts query vectors as JSON numbers only.
    const vector = Array.from(toFloat32(embedding));
    const where = whereMember(options.where);
    const search = async ([name = ""]: string[], signal: AbortSignal): Promise<CollectionMatches> =>
      await this.#searchOne(name, vector, where, { ...options, signal });
    return await searchEach(new Set(collections), search, this.#timeoutMs, options.signal);
  }

  async documents(
    collection: string,
    { where, limit = 1000 }: { where?: Where | undefined; limit?: number | undefined } = {},
  ): Promise<Document[]> {
    const filter = whereMember(where);
    const { id } = await this.#collection(collection);
    const found: Document[] = [];
    while (found.length < limit) {
      const size = Math.min(PAGE_SIZE, limit - found.length);
      const body = { limit: size, offset: found.length, include: ["documents", "metadatas"], ...filter };
      const page = await this.#send<ChromaRecords>("POST", this.#records(id, "get"), body);
      page.ids.forEach((documentId, index) => {
        const metadata = withoutNulls(page.metadatas[index]);
        found.push({ id: documentId, text: page.documents[index] ?? "", metadata });
      });
      if (page.ids.length < size) {
        break;
      }
    }
    return found;
  }

  async #searchOne(
    name: string,
    vector: number[],
    where: object,
    { topK, minScore, includeEmbeddings = false, headers, signal }: SearchOptions,
  ): Promise<CollectionMatches> {
    const call = { headers, signal };
    // Looked up for each search: a collection that was deleted and created again has the same name and another id.
    const collection = await this.#collection(name, call);
    const { dimension } = collection;
    if (typeof dimension === "number" && dimension !== vector.length) {
      const detail = `Query has dimension ${vector.length}, collection has dimension ${dimension}`;
      throw new BadRequest({ status: 400, detail, code: "dimension_mismatch" });
    }
    const include = ["documents", "metadatas", "distances", ...(includeEmbeddings ? ["embeddings"] : [])];
    const body = { query_embeddings: [vector], n_results: topK, include, ...where };
    const found = await this.#send<ChromaQueryResult>("POST", this.#records(collection.id, "query"), body, call);
    const matches = matchesOf(found, collection);
    return { results: minScore === undefined ? matches : matches.filter(({ score }) => score >= minScore), errors: [] };
  }

  async #collection(name: string, call?: CallOptions): Promise<ChromaCollection> {
    return await this.#send("GET", `${this.#database}/collections/${encodeURIComponent(name)}`, undefined, call);
  }

  #records(collectionId: string, verb: string): string {
    return `${this.#database}/collections/${encodeURIComponent(collectionId)}/${verb}`;
  }

  async #send<T>(method: string, path: string, body?: object, call?: CallOptions): Promise<T> {
    return (await this.#transport.send(plainAttempt<T>(method, `${this.#url}${path}`, { body }), call)).body;
  }
}

function whereMember(where: Where | undefined): object {
  const translated = toChromaWhere(where);
  return Object.keys(translated).length > 0 ? { where: translated } : {};
}
