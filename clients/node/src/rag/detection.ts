/**
 * Detects whether a URL belongs to a ragstore service or to a plain Chroma server.
 *
 * The platform calls the URL `chromadb_url` in both cases.
 */

import { parseEndpoint } from "../arguments.js";
import { ProblemError, ServerError, UnexpectedResponse } from "../errors.js";
import { type Fetch, plainAttempt, Transport } from "../transport.js";

export type Backend = "ragstore" | "chroma";

/** How a backend is detected. */
export interface DetectOptions {
  /** Time limit of the request, retry included. */
  timeoutMs: number;
  fetch?: Fetch | undefined;
  signal?: AbortSignal | undefined;
}

/** Detects the backend behind a URL and caches the result. */
export class BackendDetector {
  readonly #cache = new Map<string, { backend: Backend; expires: number }>();

  readonly #withoutLayers = new Set<string>();

  /** @param ttlMs how long a result is cached. */
  constructor(private readonly ttlMs = 300_000) {}

  /** The cached result for a URL; undefined when there is none. */
  cached(url: string): Backend | undefined {
    const known = this.#cache.get(url);
    return known && performance.now() < known.expires ? known.backend : undefined;
  }

  /** Note that the documents of a collection have no layer, and return whether that is news. */
  noteWithoutLayers(url: string, collection: string): boolean {
    const key = JSON.stringify([url, collection]);
    const isNews = !this.#withoutLayers.has(key);
    this.#withoutLayers.add(key);
    return isNews;
  }

  /** Remove the cached result for a URL. */
  invalidate(url: string): void {
    this.#cache.delete(url);
  }

  /**
   * Detect the backend behind a URL. Only Chroma has Chroma's heartbeat. The request carries no key.
   *
   * @throws TransportError if no server responds there.
   * @throws ServerError if the server responds with an error of its own (5xx).
   */
  async detect(url: string, { timeoutMs, fetch = (request) => globalThis.fetch(request), signal }: DetectOptions): Promise<Backend> {
    const cached = this.cached(url);
    if (cached) {
      return cached;
    }
    const retries = { attempts: 2, baseMs: 100, capMs: 1_000, budgetMs: timeoutMs };
    const transport = new Transport({ fetch, retries, timeoutMs, deadlineMs: timeoutMs, headers: {} });
    const heartbeat = plainAttempt<object>("GET", `${parseEndpoint(url).url}/api/v2/heartbeat`);
    let backend: Backend = "ragstore";
    try {
      const { body } = await transport.send(heartbeat, { signal });
      backend = typeof body === "object" && "nanosecond heartbeat" in body ? "chroma" : "ragstore";
    } catch (error) {
      if (error instanceof ServerError || !(error instanceof ProblemError || error instanceof UnexpectedResponse)) {
        throw error;
      }
    }
    this.#cache.set(url, { backend, expires: performance.now() + this.ttlMs });
    return backend;
  }
}
