/**
 * When to try again, and how long to wait before.
 *
 * A call that is idempotent is tried again when the connection fails or the service says it is busy, away or too slow.
 * One that is not is tried again only when nothing can have happened: no connection was made, or a rate limit refused
 * it. A 503 does not say whether Chroma took the write before it went away, so adding is not repeated after one: its
 * second try could report its own first as a conflict. Upserting is the call to repeat.
 */

import {
  BadGateway,
  ConnectFailed,
  GatewayTimeout,
  ProblemError,
  TooManyRequests,
  TransportError,
  Unavailable,
} from "./errors.js";

/** How a client tries again: exponential waits with full jitter, within a budget. */
export interface RetryPolicy {
  /** Most tries of one call; 1 never tries again. */
  attempts: number;
  /** Longest wait before the second try; it doubles with each further one. */
  baseMs: number;
  /** Longest wait before any try, unless the service asks for more by `Retry-After`. */
  capMs: number;
  /** Time after the first try began within which another may begin. */
  budgetMs: number;
}

export const DEFAULT_RETRIES: Readonly<RetryPolicy> = { attempts: 4, baseMs: 200, capMs: 5_000, budgetMs: 30_000 };

const NOTHING_HAPPENED = [ConnectFailed, TooManyRequests];
const MAY_PASS = [TransportError, TooManyRequests, BadGateway, Unavailable, GatewayTimeout];

/** The tries of one call. */
export class Retrying {
  /** Whether an earlier try may have reached the service and taken effect. */
  mayHaveHappened = false;

  readonly #policy: RetryPolicy;
  readonly #repeatable: readonly (abstract new (
    ...args: never[]
  ) => Error)[];
  readonly #started = performance.now();
  #attempt = 1;

  constructor(policy: RetryPolicy, idempotent: boolean) {
    this.#policy = policy;
    this.#repeatable = idempotent ? MAY_PASS : NOTHING_HAPPENED;
  }

  /**
   * Decide what follows a failed try.
   *
   * @param error what the try ended in.
   * @returns milliseconds to wait before the next try; undefined when there must be none.
   */
  waitAfter(error: unknown): number | undefined {
    const { attempts, baseMs, capMs, budgetMs } = this.#policy;
    if (this.#attempt >= attempts || !this.#repeatable.some((kind) => error instanceof kind)) {
      return undefined;
    }
    let wait = Math.random() * Math.min(capMs, baseMs * 2 ** (this.#attempt - 1));
    if (error instanceof ProblemError && error.retryAfterMs !== undefined) {
      // The jitter comes on top, so that all who were sent away do not come back at once.
      wait += error.retryAfterMs;
    }
    if (performance.now() - this.#started + wait > budgetMs) {
      return undefined;
    }
    this.mayHaveHappened ||= !NOTHING_HAPPENED.some((kind) => error instanceof kind);
    this.#attempt += 1;
    return wait;
  }
}
