/**
 * When a call is retried, and after what delay.
 *
 * An idempotent call is retried when the connection fails or the service is busy, unavailable or too slow. Any other
 * call is retried only when it cannot have been applied: no connection was made, the request did not arrive completely, or
 * a rate limit rejected it. A 503 does not say whether Chroma applied the write before it became unavailable, so
 * `addDocuments` is not retried after one: the second attempt could report the first one's documents as a conflict.
 * `upsertDocuments` is the call to retry.
 */

import {
  BadGateway,
  ConnectFailed,
  GatewayTimeout,
  ProblemError,
  RequestTimeout,
  TooManyRequests,
  TransportError,
  Unavailable,
} from "./errors.js";

/** How calls are retried: exponential backoff with full jitter, within a time budget. */
export interface RetryPolicy {
  /** Maximum number of attempts of one call; 1 disables retries. */
  attempts: number;
  /** Maximum delay before the second attempt; it doubles with each further attempt. */
  baseMs: number;
  /** Maximum delay before any attempt, unless the service sends a longer `Retry-After`. */
  capMs: number;
  /** Time after the start of the first attempt within which another attempt may start. */
  budgetMs: number;
}

export const DEFAULT_RETRIES: Readonly<RetryPolicy> = { attempts: 4, baseMs: 200, capMs: 5_000, budgetMs: 30_000 };

const NOT_APPLIED = [ConnectFailed, RequestTimeout, TooManyRequests];
const TRANSIENT = [TransportError, RequestTimeout, TooManyRequests, BadGateway, Unavailable, GatewayTimeout];

/** The attempts of one call. */
export class RetryState {
  /** Whether an earlier attempt may have reached the service and taken effect. */
  maybeApplied = false;

  readonly #policy: RetryPolicy;
  readonly #retryable: readonly (abstract new (
    ...args: never[]
  ) => Error)[];
  readonly #started = performance.now();
  #attempt = 1;

  constructor(policy: RetryPolicy, idempotent: boolean) {
    this.#policy = policy;
    this.#retryable = idempotent ? TRANSIENT : NOT_APPLIED;
  }

  /**
   * Decide whether to retry after a failed attempt.
   *
   * @param error the error of the attempt.
   * @returns milliseconds to wait before the next attempt; undefined if the call must not be retried.
   */
  nextDelay(error: unknown): number | undefined {
    const { attempts, baseMs, capMs, budgetMs } = this.#policy;
    if (this.#attempt >= attempts || !this.#retryable.some((kind) => error instanceof kind)) {
      return undefined;
    }
    let delay = Math.random() * Math.min(capMs, baseMs * 2 ** (this.#attempt - 1));
    if (error instanceof ProblemError && error.retryAfterMs !== undefined) {
      // The jitter is added, so that rejected clients do not all retry at the same time.
      delay += error.retryAfterMs;
    }
    if (performance.now() - this.#started + delay > budgetMs) {
      return undefined;
    }
    this.maybeApplied ||= !NOT_APPLIED.some((kind) => error instanceof kind);
    this.#attempt += 1;
    return delay;
  }
}
