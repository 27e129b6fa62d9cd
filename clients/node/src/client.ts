/** The client: the calls of the contract as methods. */

import { parseCallOptions } from "./arguments.js";
import { camelKeys } from "./casing.js";
import { type CollectionHandle, collectionHandle } from "./collection_handle.js";
import { type ClientOptions, connect, type Defaults, inheritKey } from "./connection.js";
import { Core } from "./core.js";
import { QueryCalls } from "./queries.js";
import type { TransportSettings } from "./transport.js";
import type { CallOptions, Health, Probe, Schemas, ServiceInfo } from "./types.js";

export const DEFAULT_URL = "http://127.0.0.1:8080";

const DEFAULTS: Defaults = { url: DEFAULT_URL, urlVariable: "RAGSTORE_URL", keyVariable: "RAGSTORE_API_KEY" };

/**
 * A client of one service. Its only state is connections, which the runtime pools and closes.
 *
 * Calls reject with a `RagstoreError`. Idempotent calls are retried when the connection fails or the service is busy.
 * `addDocuments`, and `createCollection` without `getOrCreate`, are retried only if they cannot have been applied.
 * The last argument of each call is an object of options: its own, and those of every call (`CallOptions`).
 */
export class Client extends QueryCalls {
  readonly #options: ClientOptions;
  readonly #settings: TransportSettings;

  /**
   * @param url the service's URL; the environment variable `RAGSTORE_URL` by default, and without it
   *   `http://127.0.0.1:8080`. A user and a password in it are sent as a header.
   * @throws InvalidConfiguration if the URL or an option is invalid.
   */
  constructor(url?: string, options: ClientOptions = {}) {
    const { url: parsed, settings } = connect("Client", url, options, DEFAULTS);
    super(new Core(parsed, settings));
    this.#options = options;
    this.#settings = settings;
  }

  /** The service's URL, without user and password. */
  get baseUrl(): string {
    return this.core.url;
  }

  /** A client with other options, for some calls. Headers are added to this client's. */
  withOptions(options: ClientOptions): Client {
    const headers = { ...this.#options.headers, ...options.headers };
    const client = new Client(this.baseUrl, { ...this.#options, ...options, headers });
    inheritKey(options, client.#settings, this.#settings);
    return client;
  }

  /** A handle of a collection, with the calls of this client and without its name. No request is sent. */
  collection(name: string): CollectionHandle {
    return collectionHandle(this, name);
  }

  /** Name, version and links of the service. */
  async info(options?: CallOptions): Promise<ServiceInfo> {
    return await this.core.send((api, init) => api.GET("/", { ...init }), parseCallOptions("info", options));
  }

  /** Health of the service. An unhealthy service is a result, not an error. */
  async health(options?: CallOptions): Promise<Health> {
    const health = await this.core.send<Schemas["Health"]>(
      (api, init) => api.GET("/health", { ...init }),
      parseCallOptions("health", options),
      { isResult: (status, body): body is Schemas["Health"] => hasStatus(status, body, "unhealthy") },
    );
    return { ...camelKeys(health), details: camelKeys(health.details) };
  }

  /** Liveness of the service: whether its process responds. */
  async live(options?: CallOptions): Promise<Probe> {
    return await this.core.send((api, init) => api.GET("/health/live", { ...init }), parseCallOptions("live", options));
  }

  /** Readiness of the service. An unready service is a result, not an error. */
  async ready(options?: CallOptions): Promise<Probe> {
    return await this.core.send<Probe>(
      (api, init) => api.GET("/health/ready", { ...init }),
      parseCallOptions("ready", options),
      { isResult: (status, body): body is Probe => hasStatus(status, body, "unready") },
    );
  }

  /** The service's metrics in the format of Prometheus. */
  async metrics(options?: CallOptions): Promise<string> {
    return await this.core.getText("metrics", "/metrics", options);
  }

  /** The service's OpenAPI document as JSON. */
  async openapi(options?: CallOptions): Promise<string> {
    return await this.core.getText("openapi", "/openapi.json", options);
  }
}

function hasStatus(status: number, body: unknown, expected: string): boolean {
  return status === 503 && (body as { status?: unknown } | null | undefined)?.status === expected;
}
