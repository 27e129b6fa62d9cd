/** Embeds queries. */

import { bearer, milliseconds, parseEndpoint } from "../arguments.js";
import { Base64, toFloat32 } from "../embeddings.js";
import { describe, EmbeddingFailed, InvalidInput, ProblemError, RagstoreError } from "../errors.js";
import { type Fetch, plainAttempt, Transport } from "../transport.js";
import type { Embedding } from "../types.js";
import { DEFAULT_EMBEDDINGS_URL } from "./config.js";

/** How a text is embedded. */
export interface EmbedOptions {
  /** Name of the model that the searched collections were embedded with. */
  model: string;
  /** Aborts the embedding. */
  signal?: AbortSignal | undefined;
}

/** Embeds texts: a model in this process, another provider's API, or anything else with these two members. */
export interface Embedder {
  /** Identifies the embedder, without secrets: part of the key under which vectors are cached. */
  readonly connection: string;
  /** Embed a text. The vector may be returned without a promise. */
  embed(text: string, options: EmbedOptions): Embedding | Promise<Embedding>;
}

export interface EmbeddingsClientOptions {
  /** Sent as `Authorization: Bearer`. */
  apiKey?: string | undefined;
  /** Time limit, retries included: 10,000 by default. */
  timeoutMs?: number | undefined;
  /** Sends the requests; the global `fetch` by default. */
  fetch?: Fetch | undefined;
}

interface Vector {
  embedding?: number[] | string;
  index?: number;
}

/** The response of `/v1/embeddings`, of a server of one model to `/embed`, or of TEI to `/embed`. */
type Vectors = { data?: Vector[]; vectors?: number[][] } | number[][];

const EMBED_PATH = "/embed";

/**
 * An `Embedder` that calls a TEI or OpenAI-compatible endpoint, `POST /v1/embeddings`, or `POST /embed` as TEI and servers
 * of one model have it: `{"inputs": [...], "normalize": true}`.
 */
export class EmbeddingsClient implements Embedder {
  /** The endpoint's URL, without user and password. */
  readonly connection: string;
  readonly #endpoint: string;
  readonly #transport: Transport;

  /**
   * @param url URL of the server; `/v1` or `/v1/embeddings` at its end is optional. One that ends with `/embed` is called
   *   as it is.
   * @throws InvalidConfiguration if the URL or the key is invalid.
   */
  constructor(url: string = DEFAULT_EMBEDDINGS_URL, options: EmbeddingsClientOptions = {}) {
    const { apiKey, timeoutMs = 10_000, fetch = (request: Request) => globalThis.fetch(request) } = options;
    const { url: bare, authorization } = parseEndpoint(url);
    const credentials = apiKey ? bearer(apiKey) : authorization;
    const limit = milliseconds("timeoutMs", timeoutMs);
    this.connection = bare.replace(/\/v1(?:\/embeddings)?$/, "");
    this.#endpoint = this.connection.endsWith(EMBED_PATH) ? this.connection : `${this.connection}/v1/embeddings`;
    this.#transport = new Transport({
      fetch,
      retries: { attempts: 3, baseMs: 100, capMs: 1_000, budgetMs: limit },
      timeoutMs: limit,
      deadlineMs: limit,
      headers: credentials === undefined ? {} : { authorization: credentials },
    });
  }

  /**
   * Embed one text.
   *
   * @throws EmbeddingFailed if the server returned no usable vector in time.
   */
  async embed(text: string, options: EmbedOptions): Promise<Float32Array> {
    const [vector = new Float32Array()] = await this.embedMany([text], options);
    return vector;
  }

  /**
   * Embed several texts in one request.
   *
   * @returns a vector for each text, all of one dimension.
   * @throws EmbeddingFailed if the server returned no usable vectors in time.
   */
  async embedMany(texts: readonly string[], { model, signal }: EmbedOptions): Promise<Float32Array[]> {
    const body = this.#endpoint.endsWith(EMBED_PATH) ? { inputs: texts, normalize: true } : { model, input: texts };
    const attempt = plainAttempt<Vectors>("POST", this.#endpoint, { body });
    try {
      const { body } = await this.#transport.send(attempt, { signal });
      return usableVectors(body, texts.length);
    } catch (error) {
      if (!(error instanceof RagstoreError)) {
        throw error;
      }
      // A server's own message is not used: it may repeat the text that was sent.
      const reason = error instanceof ProblemError ? `HTTP ${error.status}` : error.message || describe(error);
      const where = reason.includes(this.#endpoint) ? "" : ` of ${this.#endpoint}`;
      throw new EmbeddingFailed(`embedding with model '${model}'${where} failed: ${reason}`, { cause: error });
    }
  }
}

function vectorsOf(response: Vectors): Vector[] | undefined {
  if (!Array.isArray(response) && response.data !== undefined) {
    return response.data;
  }
  const vectors = Array.isArray(response) ? response : response.vectors;
  return Array.isArray(vectors) ? vectors.map((embedding) => ({ embedding })) : undefined;
}

function usableVectors(response: Vectors, expected: number): Float32Array[] {
  const data = vectorsOf(response);
  if (!Array.isArray(data) || data.length !== expected) {
    throw new InvalidInput(`the response has ${Array.isArray(data) ? data.length : "no"} vectors for ${expected} texts`);
  }
  const inOrder = [...data].sort((one, other) => (one.index ?? 0) - (other.index ?? 0));
  const vectors = inOrder.map(({ embedding }) =>
    toFloat32(typeof embedding === "string" ? new Base64(embedding) : (embedding ?? [])),
  );
  if (new Set(vectors.map(({ length }) => length)).size > 1) {
    throw new InvalidInput("the response has vectors of different dimensions");
  }
  return vectors;
}
