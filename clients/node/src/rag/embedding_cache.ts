/** A cache of query vectors. */

import { toFloat32 } from "../embeddings.js";
import { EmbeddingFailed, InvalidInput } from "../errors.js";
import type { Embedder } from "./embedder.js";
import { type Logger, NO_LOGGER } from "./logger.js";

/** The model and the number of collections of a cached vector. */
export interface CachedEmbedOptions {
  /** Name of the model. */
  model: string;
  /** Number of collections that the vector is for: the first may cause a miss, the others reuse it. 1 by default. */
  collections?: number;
  /** Aborts the embedding. */
  signal?: AbortSignal | undefined;
  /** Logs hits, without the text. */
  logger?: Logger;
}

/** A least-recently-used cache of vectors, by `connection:model` and text. */
export class EmbeddingCache {
  readonly #vectors = new Map<string, Float32Array>();

  /** @param capacity maximum number of vectors; one of 768 dimensions takes 3 KiB. */
  constructor(private readonly capacity = 1024) {}

  /**
   * Get a vector from the cache, or from the embedder.
   *
   * @throws EmbeddingFailed if the embedder returned no usable vector.
   */
  async embed(
    embedder: Embedder,
    text: string,
    { model, collections = 1, signal, logger = NO_LOGGER }: CachedEmbedOptions,
  ): Promise<Float32Array> {
    const owner = `${embedder.connection}:${model}`;
    const key = `${owner}\n${text}`;
    const cached = this.#vectors.get(key);
    const hits = cached ? collections : collections - 1;
    const vector = cached ?? (await usableVector(embedder, text, model, signal));
    this.#put(key, vector);
    if (hits > 0) {
      logger.info(`Embedding cache hit for ${owner}: reused for ${hits} collection queries`);
    }
    return vector;
  }

  #put(key: string, vector: Float32Array): void {
    // A map iterates in the order of insertion, so the least recently used vector comes first.
    this.#vectors.delete(key);
    this.#vectors.set(key, vector);
    for (const [oldest] of this.#vectors) {
      if (this.#vectors.size <= this.capacity) {
        break;
      }
      this.#vectors.delete(oldest);
    }
  }
}

async function usableVector(
  embedder: Embedder,
  text: string,
  model: string,
  signal: AbortSignal | undefined,
): Promise<Float32Array> {
  const embedding = await embedder.embed(text, { model, signal });
  try {
    return toFloat32(embedding);
  } catch (error) {
    throw error instanceof InvalidInput
      ? new EmbeddingFailed(`the embedder returned no usable vector: ${error.message}`, { cause: error })
      : error;
  }
}
