/** The client of a gateway. */

import { parseCallOptions, parseOptions } from "../arguments.js";
import { type ClientOptions, connect, type Defaults, inheritKey } from "../connection.js";
import { Core } from "../core.js";
import type { TransportSettings } from "../transport.js";
import type { CallOptions } from "../types.js";
import { Configurations } from "./configurations.js";
import { QuestionCalls } from "./question_calls.js";
import type { paths } from "./schema.js";
import type { Access, Assistant, KnowledgeBase, QuestionSet } from "./types.js";

const DEFAULTS: Defaults = {
  url: "http://127.0.0.1:8090",
  urlVariable: "RAGSTORE_GATEWAY_URL",
  keyVariable: "RAGSTORE_GATEWAY_API_KEY",
};

/** A call that has no method. */
export interface RequestOptions {
  /** The body, which is encoded as JSON. */
  body?: unknown;
  /** Whether the call may be sent twice; by default, whether the method is GET, PUT or DELETE. */
  idempotent?: boolean | undefined;
}

/**
 * A client of one gateway. Its only state is connections, which the runtime pools and closes.
 *
 * Calls reject with a `RagstoreError`, as the store's client does. Idempotent calls are retried when the connection fails
 * or the gateway is busy. The last argument of each call is an object of options: its own, and those of every call
 * (`CallOptions`).
 */
export class GatewayClient extends QuestionCalls {
  /** The knowledge bases. */
  readonly bases: Configurations<KnowledgeBase>;
  /** The assistants, each of which is a model `rag/NAME` of the chat API. */
  readonly assistants: Configurations<Assistant>;
  /** The question sets of knowledge bases. */
  readonly questionSets: Configurations<QuestionSet>;
  readonly #options: ClientOptions;
  readonly #settings: TransportSettings;

  /**
   * @param url the gateway's URL; the environment variable `RAGSTORE_GATEWAY_URL` by default, and without it
   *   `http://127.0.0.1:8090`. A user and a password in it are sent as a header.
   * @param options the key is `RAGSTORE_GATEWAY_API_KEY` by default.
   * @throws InvalidConfiguration if the URL or an option is invalid.
   */
  constructor(url?: string, options: ClientOptions = {}) {
    const { url: parsed, settings } = connect("GatewayClient", url, options, DEFAULTS);
    super(new Core<paths>(parsed, settings));
    this.#options = options;
    this.#settings = settings;
    this.bases = new Configurations<KnowledgeBase>(this.core, "rags");
    this.assistants = new Configurations<Assistant>(this.core, "assistants");
    this.questionSets = new Configurations<QuestionSet>(this.core, "questions");
  }

  /** The gateway's URL, without user and password. */
  get baseUrl(): string {
    return this.core.url;
  }

  /** A client with other options, for some calls. Headers are added to this client's. */
  withOptions(options: ClientOptions): GatewayClient {
    const headers = { ...this.#options.headers, ...options.headers };
    const client = new GatewayClient(this.baseUrl, { ...this.#options, ...options, headers });
    inheritKey(options, client.#settings, this.#settings);
    return client;
  }

  /** Get the version of the gateway, its limits, and the rights of the client's key. */
  async access(options?: CallOptions): Promise<Access> {
    return await this.core.send((api, init) => api.GET("/access", { ...init }), parseCallOptions("access", options));
  }

  /**
   * Send a call that this client has no method for, with its key, its retries and its errors. The response is JSON.
   *
   * @param path the path below the gateway's URL, percent-encoded, with the query string.
   */
  async request<T>(method: string, path: string, options?: RequestOptions & CallOptions): Promise<T> {
    const { call, own } = parseOptions<RequestOptions>("request", options, { body: true, idempotent: true });
    const { body, idempotent = ["GET", "PUT", "DELETE"].includes(method) } = own;
    return await this.core.request<T>(method, path, body, call, { idempotent });
  }
}
