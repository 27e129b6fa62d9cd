/** The retriever: one query to several archives, one ranked result. */

import { type Names, parseEndpoint, parseOptions } from "../arguments.js";
import { describe, EmbeddingFailed, InvalidConfiguration, InvalidInput, RagstoreError } from "../errors.js";
import { sleep } from "../runtime.js";
import type { Fetch } from "../transport.js";
import type { Match, Where } from "../types.js";
import { type Archive, archiveOf, DEFAULT_SETTINGS, type RagConfig, type RagSettings } from "./config.js";
import { BackendDetector } from "./detection.js";
import { type Embedder, EmbeddingsClient } from "./embedder.js";
import { EmbeddingCache } from "./embedding_cache.js";
import { assemble, documentFilter, type ExpandedPassage, sectionFilter } from "./expansion.js";
import { searchError } from "./fanout.js";
import { type Logger, NO_LOGGER } from "./logger.js";
import type { SearchError } from "./providers.js";
import { rank, type RetrievedPassage, type SearchResults, type SkippedArchive, type SkipReason } from "./results.js";
import { type ApiKeys, ServiceRouter } from "./router.js";

/** The layer that means all layers. */
export const ALL_LAYERS = "*";

/** Maximum number of matches that a service returns. */
const MAX_MATCHES = 1000;

/** Maximum number of chunks of an expanded section or document. */
const MAX_CHUNKS = 10_000;

export interface RetrieverOptions {
  /** Time limits and defaults. The environment is read by `settingsFromEnv()` only. */
  settings?: Partial<RagSettings> | undefined;
  /** Embeds queries; an `EmbeddingsClient` for the endpoint in `settings` by default. */
  embedder?: Embedder | undefined;
  /** Vectors of earlier queries; a new cache by default. Retrievers that live for one invocation should share one. */
  cache?: EmbeddingCache | undefined;
  /** Detects and caches the backend behind a URL; a new detector by default. To be shared like `cache`. */
  detector?: BackendDetector | undefined;
  /** Key for ragstore services, one for all or by base URL; the one in `settings` by default. */
  apiKey?: ApiKeys | undefined;
  /** Sends all requests; the global `fetch` by default. */
  fetch?: Fetch | undefined;
  /** Where searches and skipped archives are logged; nowhere by default. */
  logger?: Logger | undefined;
}

/** The options of one search. */
export interface RetrieveOptions {
  /** Maximum number of passages, 1 to 1,000; the default in the settings. */
  topK?: number | undefined;
  /** Layer of the documents; `*`, the default, for all. A collection whose documents have no layer is searched as a whole. */
  layer?: string | undefined;
  /** A further filter on metadata. */
  where?: Where | undefined;
  /** Omit passages with a lower score. */
  minScore?: number | undefined;
  /** Return the vectors as well. */
  includeEmbeddings?: boolean | undefined;
  /** Headers of the requests of this search, such as `traceparent`. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Time limit of this search, embedding included; those in the settings apply as well. */
  timeoutMs?: number | undefined;
  /** Aborts the search. */
  signal?: AbortSignal | undefined;
}

const SEARCH: Names<Omit<RetrieveOptions, "timeoutMs" | "headers" | "signal">> = {
  topK: true,
  layer: true,
  where: true,
  minScore: true,
  includeEmbeddings: true,
};

/** Archives that one call can search: they share a service and an embedding model. */
interface Group {
  url: string;
  model: string;
  archives: Archive[];
}

/** The results of a search in one group. */
interface Found {
  passages: RetrievedPassage[];
  skipped: SkippedArchive[];
}

/** Searches the archives of an invocation. It has no state outside its arguments, and nothing has to be closed. */
export class Retriever {
  /** The archives, with all defaults. */
  readonly archives: readonly Archive[];

  /** Time limits and defaults. */
  readonly settings: Readonly<RagSettings>;

  readonly #embedder: Embedder;
  readonly #cache: EmbeddingCache;
  readonly #router: ServiceRouter;
  readonly #detector: BackendDetector;
  readonly #logger: Logger;

  /** @throws InvalidConfiguration if the URL of the embeddings endpoint is invalid. */
  constructor(config: RagConfig, options: RetrieverOptions = {}) {
    const { fetch, logger = NO_LOGGER, cache = new EmbeddingCache(), detector = new BackendDetector() } = options;
    const settings: RagSettings = { ...DEFAULT_SETTINGS, ...options.settings };
    this.archives = config.archives.map(archiveOf);
    this.settings = settings;
    this.#embedder =
      options.embedder ?? new EmbeddingsClient(settings.embeddingsUrl, { timeoutMs: settings.embedTimeoutMs, fetch });
    this.#cache = cache;
    this.#detector = detector;
    this.#logger = logger;
    const apiKey = options.apiKey ?? settings.apiKey;
    this.#router = new ServiceRouter({ detector, timeoutMs: settings.queryTimeoutMs, apiKey, fetch });
  }

  /**
   * Search the archives.
   *
   * @param query the question, or the topic.
   * @returns the passages, nearest first and without duplicates, and the archives that were skipped. Distances of
   *   archives with different distance functions are compared without conversion.
   * @throws EmbeddingFailed if the query could not be embedded with any of the archives' models.
   * @throws InvalidInput if the filter cannot be sent, or an option does not exist.
   */
  async search(query: string, options: RetrieveOptions = {}): Promise<SearchResults> {
    parseOptions("search", options, SEARCH);
    const { topK = this.settings.defaultTopK, timeoutMs = Infinity } = options;
    const maxPassages = Math.min(Math.max(Math.trunc(topK) || 1, 1), MAX_MATCHES);
    const deadline = performance.now() + timeoutMs;
    if (query.trim() === "") {
      return { passages: [], skipped: [], searched: this.archives.length };
    }
    const { groups, skipped } = this.#groups();
    const vectors = await this.#vectors(query, groups, deadline, options.signal);
    const searches = await Promise.all(
      groups.map((group) => this.#searchGroup(group, vectors.get(group.model), maxPassages, deadline, options)),
    );
    const found = searches.flatMap(({ passages }) => passages);
    skipped.push(...searches.flatMap((search) => search.skipped));
    for (const { archive, reason } of skipped) {
      this.#logger.warn(`Skipping archive ${archive.name} (${archive.collectionName}): ${reason}`);
    }
    const passages = rank(found, maxPassages);
    const searched = this.archives.length - skipped.length;
    this.#logger.info(
      `Searched ${searched} archives, skipped ${skipped.length}: ${passages.length} passages of ${found.length} matches`,
    );
    return { passages, skipped, searched };
  }

  /**
   * Get the whole section of a passage.
   *
   * @returns the section's chunks in reading order; those of the document when the passage names no section.
   * @throws InvalidInput if the passage's metadata names neither.
   * @throws RagstoreError if the archive could not be read.
   */
  async gatherSection(passage: RetrievedPassage): Promise<ExpandedPassage> {
    return await this.#gather(passage, sectionFilter(passage));
  }

  /**
   * Get the whole document of a passage: its chunks in reading order, of the passage's layer.
   *
   * @throws InvalidInput if the passage's metadata names no document.
   * @throws RagstoreError if the archive could not be read.
   */
  async gatherDocument(passage: RetrievedPassage): Promise<ExpandedPassage> {
    return await this.#gather(passage, documentFilter(passage));
  }

  async #gather(passage: RetrievedPassage, where: Where): Promise<ExpandedPassage> {
    const { chromadbUrl, collectionName } = passage.archive;
    const documents = await this.#router.documents(chromadbUrl, collectionName, where, MAX_CHUNKS);
    return assemble(documents, "section_heading" in where ? passage : undefined);
  }

  #groups(): { groups: Group[]; skipped: SkippedArchive[] } {
    const groups = new Map<string, Group>();
    const skipped: SkippedArchive[] = [];
    for (const archive of this.archives) {
      const { chromadbUrl, embeddingModel } = archive;
      try {
        const key = JSON.stringify([parseEndpoint(chromadbUrl).url, embeddingModel]);
        const group = groups.get(key) ?? { url: chromadbUrl, model: embeddingModel, archives: [] };
        group.archives.push(archive);
        groups.set(key, group);
      } catch (error) {
        if (!(error instanceof InvalidConfiguration)) {
          throw error;
        }
        skipped.push({ archive, reason: "misconfigured" });
      }
    }
    return { groups: [...groups.values()], skipped };
  }

  /** The query's vector by each model that an archive was embedded with. */
  async #vectors(
    query: string,
    groups: readonly Group[],
    deadline: number,
    signal: AbortSignal | undefined,
  ): Promise<Map<string, Float32Array>> {
    const collections = new Map<string, number>();
    for (const { model, archives } of groups) {
      collections.set(model, (collections.get(model) ?? 0) + archives.length);
    }
    const vectors = new Map<string, Float32Array>();
    const causes: unknown[] = [];
    await Promise.all(
      Array.from(collections, async ([model, count]) => {
        try {
          vectors.set(model, await this.#vector(query, model, count, deadline, signal));
        } catch (error) {
          signal?.throwIfAborted();
          const reason = error instanceof EmbeddingFailed ? error.message : describe(error);
          this.#logger.error(`Embedding the query with ${model} failed: ${reason}`);
          causes.push(error);
        }
      }),
    );
    if (collections.size > 0 && vectors.size === 0) {
      const [cause] = causes;
      const reason = cause instanceof Error ? `: ${cause.message}` : "";
      throw new EmbeddingFailed(`the query could not be embedded${reason}`, { cause });
    }
    return vectors;
  }

  async #vector(
    query: string,
    model: string,
    collections: number,
    deadline: number,
    signal: AbortSignal | undefined,
  ): Promise<Float32Array> {
    const limit = Math.min(this.settings.embedTimeoutMs, deadline - performance.now());
    const controller = new AbortController();
    const abort = (): void => {
      controller.abort(signal?.reason);
    };
    signal?.addEventListener("abort", abort);
    try {
      const options = { model, collections, signal: controller.signal, logger: this.#logger };
      const embedded = this.#cache.embed(this.#embedder, query, options);
      // An embedder need not obey the signal.
      const vector = await Promise.race([embedded, sleep(limit, controller.signal)]);
      signal?.throwIfAborted();
      if (!vector) {
        throw new EmbeddingFailed(`${this.#embedder.connection} returned no vector within ${Math.round(limit)} ms`);
      }
      return vector;
    } finally {
      signal?.removeEventListener("abort", abort);
      controller.abort();
    }
  }

  async #searchGroup(
    { url, archives }: Group,
    vector: Float32Array | undefined,
    maxPassages: number,
    deadline: number,
    options: RetrieveOptions,
  ): Promise<Found> {
    if (!vector) {
      return { passages: [], skipped: archives.map((archive) => ({ archive, reason: "query not embedded" })) };
    }
    const byCollection = new Map<string, Archive[]>();
    for (const archive of archives) {
      byCollection.set(archive.collectionName, [...(byCollection.get(archive.collectionName) ?? []), archive]);
    }
    const skippedFor = (errors: readonly SearchError[]): SkippedArchive[] =>
      errors.flatMap((error) =>
        (byCollection.get(error.collection) ?? []).map((archive) => ({ archive, reason: reasonOf(error) })),
      );
    const { layer, where, minScore, includeEmbeddings, headers, signal } = options;
    // Duplicates are removed later, within an archive and between archives that hold the same documents.
    const topK = Math.min(maxPassages * (1 + archives.length), MAX_MATCHES);
    const search = async (collections: readonly string[], filter: Where | undefined) =>
      await this.#router.search(url, collections, vector, {
        topK,
        where: filter,
        minScore,
        includeEmbeddings,
        headers,
        signal,
        timeoutMs: deadline - performance.now(),
      });
    try {
      const { results, errors } = await search([...byCollection.keys()], filterOf(layer, where));
      if (isLayer(layer)) {
        const known = new Set([...results, ...errors].map(({ collection }) => collection));
        const others = [...byCollection.keys()].filter((name) => !known.has(name));
        results.push(...(await this.#withoutLayers(url, others, async () => (await search(others, where)).results)));
      }
      const passages = results.flatMap(({ collection = "", ...match }): RetrievedPassage[] => {
        const [archive] = byCollection.get(collection) ?? [];
        return archive ? [{ archive, ...match }] : [];
      });
      return { passages, skipped: skippedFor(errors) };
    } catch (error) {
      if (error instanceof InvalidInput || !(error instanceof RagstoreError)) {
        throw error;
      }
      return { passages: [], skipped: skippedFor(Array.from(byCollection.keys(), (name) => searchError(name, error))) };
    }
  }

  /** Matches in collections in which a layer has none, because their documents have no layer at all. */
  async #withoutLayers(url: string, collections: readonly string[], search: () => Promise<Match[]>): Promise<Match[]> {
    if (collections.length === 0) {
      return [];
    }
    let matches: Match[];
    try {
      matches = await search();
    } catch (error) {
      if (error instanceof InvalidInput || !(error instanceof RagstoreError)) {
        throw error;
      }
      return []; // the archives were searched, as far as the layer goes
    }
    const found = matches.filter(({ metadata }) => !("layer" in metadata));
    for (const name of new Set(found.map(({ collection = "" }) => collection))) {
      if (this.#detector.noteWithoutLayers(url, name)) {
        this.#logger.warn(`The documents of collection ${name} have no layer: all of them are searched`);
      }
    }
    return found;
  }
}

function isLayer(layer: string | undefined): layer is string {
  return layer !== undefined && layer !== ALL_LAYERS;
}

function filterOf(layer: string | undefined, where: Where | undefined): Where | undefined {
  const inLayer: Where | undefined = isLayer(layer) ? { layer } : undefined;
  return inLayer && where ? { $and: [inLayer, where] } : (inLayer ?? where);
}

const REASONS: Readonly<Record<number, SkipReason>> = {
  401: "key not accepted",
  403: "key not accepted",
  404: "collection not found",
  503: "unreachable",
  504: "too slow",
};

function reasonOf({ code, status }: SearchError): SkipReason {
  return code === "dimension_mismatch" ? "other embedding dimension" : (REASONS[status] ?? "search failed");
}
