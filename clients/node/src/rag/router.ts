/** Routes searches to the provider for an archive's URL, within a deadline, and detects a change of the backend. */

import { parseEndpoint } from "../arguments.js";
import { ProblemError, TransportError, UnexpectedResponse } from "../errors.js";
import type { Fetch } from "../transport.js";
import type { Document, Embedding, Where } from "../types.js";
import type { Backend, BackendDetector } from "./detection.js";
import type { CollectionMatches, RetrievalProvider, SearchOptions } from "./providers.js";
import { RagstoreProvider } from "./ragstore_provider.js";

/** Minimum time limit of a call, even if the detection of the backend took nearly all of the time. */
const MIN_CALL_MS = 50;

/** The key for ragstore services: one for all, or by base URL. */
export type ApiKeys = string | Readonly<Record<string, string>>;

/** How services are reached. */
export interface RouterOptions {
  detector: BackendDetector;
  /** Time limit of one search, detection included. */
  timeoutMs: number;
  /** Never sent to a plain Chroma server. */
  apiKey?: ApiKeys | undefined;
  fetch?: Fetch | undefined;
}

/** Searches and reads collections of whichever service a URL belongs to. */
export class ServiceRouter {
  constructor(private readonly options: RouterOptions) {}

  /**
   * Search collections of one service.
   *
   * @param timeoutMs time limit of this search; a longer one than that of all searches has no effect.
   * @returns the matches, each with its collection, and an error for each collection that failed.
   * @throws RagstoreError if no collection could be searched, for one reason.
   */
  async search(
    url: string,
    collections: readonly string[],
    vector: Embedding,
    options: SearchOptions & { timeoutMs: number },
  ): Promise<CollectionMatches> {
    const { timeoutMs, ...search } = options;
    const allFailed = ({ results, errors }: CollectionMatches): boolean => results.length === 0 && errors.length > 0;
    return await this.#withProvider(url, timeoutMs, search.signal, (provider) => provider.search(collections, vector, search), allFailed);
  }

  /**
   * Read documents of one collection by their metadata.
   *
   * @throws RagstoreError if the documents could not be read.
   */
  async documents(url: string, collection: string, where: Where, limit: number): Promise<Document[]> {
    const read = (provider: RetrievalProvider): Promise<Document[]> => provider.documents(collection, { where, limit });
    return await this.#withProvider(url, Infinity, undefined, read, () => false);
  }

  /** Call a provider, and once more if it failed because another backend serves its URL now. */
  async #withProvider<T>(
    url: string,
    timeoutMs: number,
    signal: AbortSignal | undefined,
    call: (provider: RetrievalProvider) => Promise<T>,
    hasFailed: (result: T) => boolean,
  ): Promise<T> {
    const { detector } = this.options;
    const deadline = performance.now() + Math.min(timeoutMs, this.options.timeoutMs);
    const cached = detector.cached(url);
    try {
      const result = await call(await this.#provider(url, deadline, signal));
      if (!hasFailed(result) || !(await this.#backendChanged(url, cached, deadline, signal))) {
        return result;
      }
    } catch (error) {
      if (error instanceof TransportError) {
        detector.invalidate(url);
      }
      const mayHaveChanged = error instanceof ProblemError || error instanceof UnexpectedResponse;
      if (!mayHaveChanged || !(await this.#backendChanged(url, cached, deadline, signal))) {
        throw error;
      }
    }
    return await call(await this.#provider(url, deadline, signal));
  }

  async #provider(url: string, deadline: number, signal: AbortSignal | undefined): Promise<RetrievalProvider> {
    const { detector, fetch } = this.options;
    const backend = await detector.detect(url, { timeoutMs: remaining(deadline), fetch, signal });
    const timeoutMs = remaining(deadline);
    if (backend === "chroma") {
      const { ChromaProvider } = await import("./chroma/provider.js");
      return new ChromaProvider({ url, timeoutMs }, fetch);
    }
    return new RagstoreProvider({ url, timeoutMs, apiKey: this.#keyFor(url) }, fetch);
  }

  /** Whether a URL belongs to another backend than the cached one now. */
  async #backendChanged(
    url: string,
    cached: Backend | undefined,
    deadline: number,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    if (!cached) {
      return false;
    }
    const { detector, fetch } = this.options;
    detector.invalidate(url);
    return (await detector.detect(url, { timeoutMs: remaining(deadline), fetch, signal })) !== cached;
  }

  #keyFor(url: string): string | undefined {
    const { apiKey } = this.options;
    if (typeof apiKey !== "object") {
      return apiKey;
    }
    const bare = parseEndpoint(url).url;
    return Object.entries(apiKey).find(([known]) => parseEndpoint(known).url === bare)?.[1];
  }
}

function remaining(deadline: number): number {
  return Math.max(deadline - performance.now(), MIN_CALL_MS);
}
