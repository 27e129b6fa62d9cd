/** The typed calls of one service: what all methods of a client share. */

import createClient, { type Client as Api } from "openapi-fetch";

import { parseCallOptions } from "./arguments.js";
import { snakeKeys } from "./casing.js";
import type { paths } from "./schema.js";
import type { RetryPolicy } from "./retry.js";
import type { CallOptions, IncludeOptions } from "./types.js";
import { type AttemptInit, type AttemptResult, type CallSemantics, plainAttempt, Transport, type TransportSettings } from "./transport.js";

/** The generated calls of a service. */
export type ServiceApi<Paths extends object = paths> = Api<Paths, "application/json">;

/** Sends the calls of one service, whose OpenAPI document has these paths: by default the store's. */
export class Core<Paths extends object = paths> {
  readonly #api: ServiceApi<Paths>;
  readonly #transport: Transport;

  constructor(
    readonly url: string,
    settings: TransportSettings,
  ) {
    this.#transport = new Transport(settings);
    this.#api = createClient<Paths, "application/json">({
      baseUrl: url,
      headers: { Accept: "application/json" },
      redirect: "manual",
    });
  }

  /** The retry policy of calls without one of their own. */
  get retries(): RetryPolicy {
    return this.#transport.settings.retries;
  }

  /** Maximum time for one attempt of a call without a limit of its own. */
  get timeoutMs(): number {
    return this.#transport.settings.timeoutMs;
  }

  /** Make a call of the contract. */
  async send<T>(
    call: (api: ServiceApi<Paths>, init: AttemptInit) => Promise<AttemptResult<T>>,
    options: CallOptions | undefined,
    semantics?: CallSemantics<T>,
  ): Promise<T> {
    return await this.#transport.send((init) => call(this.#api, init), options, semantics);
  }

  /** Make a call whose types are not generated. Its response is JSON. */
  async request<T>(
    method: string,
    path: string,
    body: unknown,
    options: CallOptions,
    semantics: CallSemantics<{ body: T }>,
  ): Promise<T> {
    const attempt = plainAttempt<T>(method, `${this.url}${path}`, { body });
    return (await this.#transport.send(attempt, options, semantics)).body;
  }

  /** Get a resource as text. */
  async getText(method: string, path: string, options: CallOptions | undefined): Promise<string> {
    const attempt = plainAttempt<string>("GET", `${this.url}${path}`, { text: true });
    return (await this.#transport.send(attempt, parseCallOptions(method, options))).body;
  }
}

/** The members of a body that say which parts of documents are returned. */
export function includedParts({ includeEmbeddings = false, includeTexts = true }: IncludeOptions): {
  include?: "embedding"[];
  exclude?: "text"[];
} {
  return { ...(includeEmbeddings && { include: ["embedding"] }), ...(!includeTexts && { exclude: ["text"] }) };
}

/** A body of the contract from options with the names of JavaScript. */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the caller names the contract's type
export function wireBody<T>(options: object): T {
  return snakeKeys(options) as T;
}
