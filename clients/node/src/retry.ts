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
  InvalidConfiguration,
  ProblemError,
  RequestTimeout,
  TooManyRequests,
  TransportError,
  Unavailable,
} from "./errors.js";

/** How calls are retried: exponential backoff with full jitter, within a time budget. */
export interface RetryPolicy {
  /** Maximum number of attempts of one call; 1 disables retries, `Infinity` leaves only the time budget. */
  attempts: number;
  /** Maximum delay before the second attempt; it doubles with each further attempt. */
  baseMs: number;
  /** Maximum delay before any attempt, unless the service sends a longer `Retry-After`. */
  capMs: number;
  /** Time after the start of the first attempt within which another attempt may start. */
  budgetMs: number;
}

/** A number of retries, or a policy whose absent fields have their defaults. */
export type Retries = number | Partial<RetryPolicy>;

export const DEFAULT_RETRIES: Readonly<RetryPolicy> = { attempts: 4, baseMs: 200, capMs: 5_000, budgetMs: 30_000 };

/** No call is retried. */
export const NO_RETRIES: Readonly<RetryPolicy> = { ...DEFAULT_RETRIES, attempts: 1 };

/** Maximum delay of a retry that lasts by time: a service that is back is used again soon. */
const LASTING_CAP_MS = 2_000;

/** The policy for work that must outlive a restart of the service: any number of attempts within a time. */
export function lasting(policy: RetryPolicy, budgetMs: number): RetryPolicy {
  const { attempts, baseMs, capMs } = policy;
  return attempts === 1
    ? policy
    : { attempts: Number.POSITIVE_INFINITY, baseMs, capMs: Math.min(capMs, LASTING_CAP_MS), budgetMs };
}

const FIELDS: Record<keyof RetryPolicy, number> = { attempts: 1, baseMs: 0, capMs: 0, budgetMs: 0 };

/**
 * Validate `retries`.
 *
 * @throws InvalidConfiguration if it is neither a number of retries nor a policy.
 */
export function parseRetries(retries: Retries | undefined): Partial<RetryPolicy> {
  if (retries === undefined) {
    return {};
  }
  if (typeof retries === "number") {
    if (!(retries === Number.POSITIVE_INFINITY || (Number.isInteger(retries) && retries >= 0))) {
      throw new InvalidConfiguration("retries must be an integer of at least 0, or a policy");
    }
    return { attempts: retries + 1 };
  }
  if (!(retries instanceof Object)) {
    throw new InvalidConfiguration("retries must be a number of retries or a policy");
  }
  const given: Record<string, unknown> = { ...retries };
  for (const [name, value] of Object.entries(given)) {
    if (!(name in FIELDS)) {
      throw new InvalidConfiguration(`retries: unknown field '${name}'; known: ${Object.keys(FIELDS).join(", ")}`);
    }
    const least = FIELDS[name as keyof RetryPolicy];
    if (value !== undefined && !(typeof value === "number" && value >= least)) {
      throw new InvalidConfiguration(`retries.${name} must be a number of at least ${least}`);
    }
  }
  // An undefined field must not hide its default.
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

const NOT_APPLIED = [ConnectFailed, RequestTimeout, TooManyRequests];
const TRANSIENT = [TransportError, RequestTimeout, TooManyRequests, BadGateway, Unavailable, GatewayTimeout];

/** The attempts of one call. */
export class RetryState {
  /** Whether an earlier attempt may have reached the service and taken effect. */
  maybeApplied = false;
  /** Number of attempts that were made, including the current one. */
  attempt = 1;

  readonly #policy: RetryPolicy;
  readonly #retryable: readonly (abstract new (
    ...args: never[]
  ) => Error)[];
  readonly #started = performance.now();

  constructor(policy: RetryPolicy, idempotent: boolean) {
    this.#policy = policy;
    this.#retryable = idempotent ? TRANSIENT : NOT_APPLIED;
  }

  /** Time since the start of the first attempt. */
  get elapsedMs(): number {
    return performance.now() - this.#started;
  }

  /**
   * Decide whether to retry after a failed attempt.
   *
   * @param error the error of the attempt.
   * @param remainingMs time that the call may still take.
   * @returns milliseconds to wait before the next attempt; undefined if the call must not be retried.
   */
  nextDelay(error: unknown, remainingMs: number): number | undefined {
    const { attempts, baseMs, capMs, budgetMs } = this.#policy;
    if (this.attempt >= attempts || !this.#retryable.some((kind) => error instanceof kind)) {
      return undefined;
    }
    let delay = Math.random() * Math.min(capMs, baseMs * 2 ** (this.attempt - 1));
    if (error instanceof ProblemError && error.retryAfterMs !== undefined) {
      // The jitter is added, so that rejected clients do not all retry at the same time.
      delay += error.retryAfterMs;
    }
    if (delay >= remainingMs || this.elapsedMs + delay > budgetMs) {
      return undefined;
    }
    this.maybeApplied ||= !NOT_APPLIED.some((kind) => error instanceof kind);
    this.attempt += 1;
    return delay;
  }
}
