/** The URL, the key and the options of a client. */

import { bearer, checkOptions, milliseconds, type Names, parseEndpoint, validatedHeaders } from "./arguments.js";
import { InvalidConfiguration } from "./errors.js";
import { DEFAULT_RETRIES, parseRetries, type Retries } from "./retry.js";
import { environmentVariable } from "./runtime.js";
import type { Fetch, TransportSettings } from "./transport.js";

export interface ClientOptions {
  /** Sent as `Authorization: Bearer`; an environment variable by default. An empty key is no key. */
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

/** The defaults of the clients of a service. */
export interface Defaults {
  url: string;
  urlVariable: string;
  keyVariable: string;
}

/** A service's URL, without user and password, and the settings of its transport. */
export interface Connection {
  url: string;
  settings: TransportSettings;
}

/**
 * Parse the URL and the options of a client.
 *
 * @param client the name of its class, for errors.
 * @throws InvalidConfiguration if the URL or an option is invalid.
 */
export function connect(client: string, url: string | undefined, options: ClientOptions, defaults: Defaults): Connection {
  checkOptions(client, options, OPTIONS);
  const { timeoutMs = 30_000, deadlineMs = null, retries, fetch = (request: Request) => globalThis.fetch(request) } = options;
  if (typeof fetch !== "function") {
    throw new InvalidConfiguration("fetch must be a function");
  }
  const endpoint = parseEndpoint(url ?? environmentVariable(defaults.urlVariable) ?? defaults.url);
  const apiKey = options.apiKey ?? (endpoint.authorization ? undefined : environmentVariable(defaults.keyVariable));
  const authorization = apiKey ? bearer(apiKey) : endpoint.authorization;
  const settings = {
    fetch,
    retries: { ...DEFAULT_RETRIES, ...parseRetries(retries) },
    timeoutMs: milliseconds("timeoutMs", timeoutMs),
    deadlineMs: milliseconds("deadlineMs", deadlineMs),
    headers: { ...validatedHeaders(options.headers ?? {}), ...(authorization !== undefined && { authorization }) },
  };
  return { url: endpoint.url, settings };
}

/**
 * Give the settings of a client the key of the client that it is made from, unless its own options have one.
 *
 * @param options the client's own options.
 */
export function inheritKey(options: ClientOptions, settings: TransportSettings, from: TransportSettings): void {
  const { authorization } = from.headers;
  if (options.apiKey === undefined && authorization !== undefined) {
    settings.headers.authorization = authorization;
  }
}
