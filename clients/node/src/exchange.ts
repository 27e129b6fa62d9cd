/** How calls are carried out: each try within its time, as often as the policy says. */

import { setTimeout as sleep } from "node:timers/promises";

import { CallTimeout, errorOf, InvalidInput, NotFound, transportError, UnexpectedResponse } from "./errors.js";
import { Retrying, type RetryPolicy } from "./retry.js";

export type Fetch = (request: Request) => Promise<Response>;

/** What any call can be given. */
export interface CallOptions {
  /** Gives the call up; it then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Longest wait for the answer to one try. */
  timeoutMs?: number;
}

/** What openapi-fetch makes of an answer. */
export interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** What a try passes on to openapi-fetch. */
export interface TryInit {
  signal: AbortSignal;
  fetch: Fetch;
}

export interface CallKind<T> {
  /** Whether doing it twice is the same as doing it once. */
  idempotent?: boolean;
  /** What a 404 means after an earlier try that may have done the work. */
  whenGone?: T;
  /** Whether the body of a failure is an answer too. */
  isAnswer?: (status: number, body: unknown) => body is T;
}

/** Carries out calls. */
export class Exchange {
  constructor(
    private readonly fetch: Fetch,
    private readonly retries: RetryPolicy,
    private readonly timeoutMs: number,
  ) {}

  /**
   * Carry out a call, as often as the policy says.
   *
   * @param send one try.
   * @throws RagstoreError what the last try ended in; or the reason of the caller's signal.
   */
  async call<T>(
    send: (init: TryInit) => Promise<Answer<T>>,
    options: CallOptions = {},
    kind: CallKind<T> = {},
  ): Promise<T> {
    const retrying = new Retrying(this.retries, kind.idempotent ?? true);
    for (;;) {
      try {
        return await this.#try(send, options, kind);
      } catch (error) {
        if (error instanceof NotFound && kind.whenGone !== undefined && retrying.mayHaveHappened) {
          return kind.whenGone;
        }
        const wait = retrying.waitAfter(error);
        if (wait === undefined) {
          throw error;
        }
        await sleep(wait, undefined, { signal: options.signal }).catch(() => options.signal?.throwIfAborted());
      }
    }
  }

  async #try<T>(
    send: (init: TryInit) => Promise<Answer<T>>,
    { signal, timeoutMs = this.timeoutMs }: CallOptions,
    { isAnswer }: CallKind<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    // Not AbortSignal.any and AbortSignal.timeout: a signal that lives long would gather what they leave on it.
    const controller = new AbortController();
    const giveUp = (): void => {
      controller.abort();
    };
    const timer = setTimeout(giveUp, timeoutMs);
    signal?.addEventListener("abort", giveUp);
    const progress = { sent: false, status: 0 };
    const fetch: Fetch = async (request) => {
      progress.sent = true;
      const response = await this.fetch(request);
      progress.status = response.status;
      return response;
    };
    let answer: Answer<T>;
    try {
      answer = await send({ signal: controller.signal, fetch });
    } catch (error) {
      signal?.throwIfAborted();
      if (controller.signal.aborted) {
        throw new CallTimeout(`no answer within ${timeoutMs} ms`);
      }
      if (!progress.sent) {
        throw new InvalidInput(`cannot be sent: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
      }
      if (error instanceof SyntaxError) {
        throw new UnexpectedResponse(`HTTP ${progress.status} without JSON`, progress.status);
      }
      throw transportError(error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", giveUp);
    }
    const { ok, status } = answer.response;
    if (ok && typeof answer.data === "object" && answer.data !== null) {
      return answer.data;
    }
    if (ok) {
      throw new UnexpectedResponse(`HTTP ${status} without JSON`, status);
    }
    if (isAnswer?.(status, answer.error)) {
      return answer.error;
    }
    throw errorOf(answer.response, answer.error);
  }
}
