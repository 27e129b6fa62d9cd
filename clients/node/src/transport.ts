/** Transport of calls: attempts with a timeout, retried by a policy. */

import { setTimeout as sleep } from "node:timers/promises";

import { CallTimeout, errorFrom, InvalidInput, NotFound, transportErrorFrom, UnexpectedResponse } from "./errors.js";
import { type RetryPolicy, RetryState } from "./retry.js";

export type Fetch = (request: Request) => Promise<Response>;

/** Options of every call. */
export interface CallOptions {
  /** Aborts the call, which then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Maximum time for one attempt, including its response. */
  timeoutMs?: number;
}

/** The result of one attempt from openapi-fetch. */
export interface AttemptResult<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The options of one attempt for openapi-fetch. */
export interface AttemptInit {
  signal: AbortSignal;
  fetch: Fetch;
}

export interface CallSemantics<T> {
  /** Whether sending the call twice has the same effect as sending it once: true by default. */
  idempotent?: boolean;
  /** The result if the response is 404 and an earlier attempt may have been applied. */
  resultIfGone?: T;
  /** Whether the body of an error response is a result, too. */
  isResult?: (status: number, body: unknown) => body is T;
}

export class Transport {
  constructor(
    private readonly fetch: Fetch,
    private readonly retries: RetryPolicy,
    private readonly timeoutMs: number,
  ) {}

  /**
   * Make a call, with retries.
   *
   * @param attempt sends the request once.
   * @throws RagstoreError the error of the last attempt; or the reason of the caller's signal.
   */
  async send<T>(
    attempt: (init: AttemptInit) => Promise<AttemptResult<T>>,
    options: CallOptions = {},
    semantics: CallSemantics<T> = {},
  ): Promise<T> {
    const state = new RetryState(this.retries, semantics.idempotent ?? true);
    for (;;) {
      try {
        return await this.#attempt(attempt, options, semantics);
      } catch (error) {
        if (error instanceof NotFound && semantics.resultIfGone !== undefined && state.maybeApplied) {
          return semantics.resultIfGone;
        }
        const delay = state.nextDelay(error);
        if (delay === undefined) {
          throw error;
        }
        await sleep(delay, undefined, { signal: options.signal }).catch(() => options.signal?.throwIfAborted());
      }
    }
  }

  async #attempt<T>(
    attempt: (init: AttemptInit) => Promise<AttemptResult<T>>,
    { signal, timeoutMs = this.timeoutMs }: CallOptions,
    { isResult }: CallSemantics<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    // Not AbortSignal.any and AbortSignal.timeout: their listeners would accumulate on a long-lived signal.
    const controller = new AbortController();
    const abort = (): void => {
      controller.abort();
    };
    const timer = setTimeout(abort, timeoutMs);
    signal?.addEventListener("abort", abort);
    const progress = { sent: false, status: 0 };
    const fetch: Fetch = async (request) => {
      progress.sent = true;
      const response = await this.fetch(request);
      progress.status = response.status;
      return response;
    };
    let result: AttemptResult<T>;
    try {
      result = await attempt({ signal: controller.signal, fetch });
    } catch (error) {
      signal?.throwIfAborted();
      if (controller.signal.aborted) {
        throw new CallTimeout(`no response within ${timeoutMs} ms`);
      }
      if (!progress.sent) {
        const reason = error instanceof Error ? error.message : String(error);
        throw new InvalidInput(`cannot be sent: ${reason}`, { cause: error });
      }
      if (error instanceof SyntaxError) {
        throw new UnexpectedResponse(`HTTP ${progress.status} without JSON`, progress.status);
      }
      throw transportErrorFrom(error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
    const { ok, status } = result.response;
    if (ok && typeof result.data === "object" && result.data !== null) {
      return result.data;
    }
    if (ok) {
      throw new UnexpectedResponse(`HTTP ${status} without JSON`, status);
    }
    if (isResult?.(status, result.error)) {
      return result.error;
    }
    throw errorFrom(result.response, result.error);
  }
}
