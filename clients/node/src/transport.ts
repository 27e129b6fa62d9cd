/** Transport of calls: attempts with a timeout, retried by a policy. */

import { milliseconds, validatedHeaders } from "./arguments.js";
import { CallTimeout, InvalidInput, NotFound, RagstoreError, TransportError } from "./errors.js";
import { errorFrom, unexpectedResponse } from "./responses.js";
import { parseRetries, type RetryPolicy, RetryState } from "./retry.js";
import { after, randomId, sleep } from "./runtime.js";
import { failureOf } from "./transport_errors.js";
import type { CallOptions } from "./types.js";

export type Fetch = (request: Request) => Promise<Response>;

/** The result of one attempt, as openapi-fetch returns it. */
export interface AttemptResult<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The means of one attempt. */
export interface AttemptInit {
  signal: AbortSignal;
  fetch: Fetch;
  headers: Record<string, string>;
}

export interface CallSemantics<T> {
  /** Whether sending the call twice has the same effect as sending it once: true by default. */
  idempotent?: boolean;
  /** The result if the response is 404 and an earlier attempt may have been applied. */
  resultIfGone?: T;
  /** Whether the body of an error response is a result, too. */
  isResult?: (status: number, body: unknown) => body is T;
}

/** The settings of a transport. */
export interface TransportSettings {
  fetch: Fetch;
  retries: RetryPolicy;
  timeoutMs: number;
  deadlineMs: number;
  headers: Record<string, string>;
}

/** An attempt in progress: what has been sent, and what has arrived. */
interface Sent {
  request?: Request;
  status: number;
}

/** An error of one attempt, and what a transport error is made of. */
interface Failed {
  error: unknown;
  reason?: string;
  permanent?: boolean;
}

export class Transport {
  constructor(readonly settings: TransportSettings) {}

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
    const { signal } = options;
    const timeoutMs = limit("timeoutMs", options.timeoutMs, this.settings.timeoutMs);
    const deadlineMs = limit("deadlineMs", options.deadlineMs, this.settings.deadlineMs);
    const headers = this.#headers(options);
    const state = new RetryState({ ...this.settings.retries, ...parseRetries(options.retries) }, semantics.idempotent ?? true);
    const sent: Sent = { status: 0 };
    for (;;) {
      const timeLeft = Math.max(deadlineMs - state.elapsedMs, 1);
      const result = await this.#attempt(attempt, { signal, headers, timeoutMs: Math.min(timeoutMs, timeLeft) }, semantics, sent);
      if ("value" in result) {
        return result.value;
      }
      const { error, permanent = false } = result;
      if (error instanceof NotFound && semantics.resultIfGone !== undefined && state.maybeApplied) {
        return semantics.resultIfGone;
      }
      const delay = permanent ? undefined : state.nextDelay(error, deadlineMs - state.elapsedMs);
      if (delay === undefined) {
        throw finalError(result, sent, state);
      }
      await sleep(delay, signal);
      signal?.throwIfAborted();
    }
  }

  #headers({ headers, requestId }: CallOptions): Record<string, string> {
    const all = validatedHeaders({
      "x-request-id": randomId(),
      ...this.settings.headers,
      ...lowerCase(headers),
      ...(requestId !== undefined && { "x-request-id": requestId }),
    });
    if (!all["x-request-id"] || all["x-request-id"].length > 128) {
      throw new InvalidInput("a request id has 1 to 128 characters");
    }
    return all;
  }

  async #attempt<T>(
    attempt: (init: AttemptInit) => Promise<AttemptResult<T>>,
    { signal, headers, timeoutMs }: { signal: AbortSignal | undefined; headers: Record<string, string>; timeoutMs: number },
    { isResult }: CallSemantics<T>,
    sent: Sent,
  ): Promise<Failed | { value: T }> {
    signal?.throwIfAborted();
    // Not AbortSignal.any and AbortSignal.timeout: their listeners would accumulate on a long-lived signal.
    const controller = new AbortController();
    const abort = (): void => {
      controller.abort();
    };
    const stop = after(timeoutMs, abort);
    signal?.addEventListener("abort", abort);
    const fetch: Fetch = async (request) => {
      sent.request = request;
      const response = await this.settings.fetch(request);
      sent.status = response.status;
      return response;
    };
    let result: AttemptResult<T>;
    try {
      result = await attempt({ signal: controller.signal, fetch, headers });
    } catch (error) {
      signal?.throwIfAborted();
      if (controller.signal.aborted) {
        return { error: new CallTimeout("", { cause: error }), reason: `no complete response within ${seconds(timeoutMs)}` };
      }
      if (!sent.request) {
        if (error instanceof RagstoreError) {
          throw error;
        }
        const reason = error instanceof Error ? error.message : String(error);
        throw new InvalidInput(`cannot be sent: ${reason}`, { cause: error });
      }
      if (error instanceof SyntaxError) {
        return { error: unexpectedResponse(sent.status, nameOf(sent.request)) };
      }
      const { ErrorClass, ...failure } = failureOf(error);
      return { error: new ErrorClass("", { cause: error }), ...failure };
    } finally {
      stop();
      signal?.removeEventListener("abort", abort);
    }
    const { ok, status } = result.response;
    const call = sent.request ? nameOf(sent.request) : "";
    if (ok && typeof result.data === "object" && result.data !== null) {
      return { value: result.data };
    }
    if (ok) {
      return { error: unexpectedResponse(status, call) };
    }
    if (isResult?.(status, result.error)) {
      return { value: result.error };
    }
    return { error: errorFrom(result.response, result.error, call) };
  }
}

/** The error to throw: with the call, and for a transport error the number of attempts and their time. */
function finalError({ error, reason = "" }: Failed, { request }: Sent, { attempt, elapsedMs }: RetryState): unknown {
  if (!(error instanceof RagstoreError) || !request) {
    return error;
  }
  let final: RagstoreError = error;
  if (error instanceof TransportError) {
    const tries = attempt > 1 ? ` (${attempt} attempts in ${seconds(elapsedMs)})` : "";
    const ErrorClass = error.constructor as typeof TransportError;
    final = Object.assign(new ErrorClass(`${nameOf(request)}: ${reason}${tries}`, { cause: error.cause }), {
      attempts: attempt,
      elapsedMs,
    });
  }
  return Object.assign(final, { method: request.method, url: bareUrl(request) });
}

function nameOf(request: Request): string {
  return `${request.method} ${bareUrl(request)}`;
}

function bareUrl({ url }: Request): string {
  return url.replace(/[?#].*$/s, "");
}

function limit(name: string, value: number | null | undefined, standard: number): number {
  return value === undefined ? standard : milliseconds(name, value);
}

function seconds(elapsedMs: number): string {
  return `${Number((elapsedMs / 1000).toPrecision(2))} s`;
}

function lowerCase(headers: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/**
 * One attempt of a call whose types are not generated.
 *
 * @param method the HTTP method.
 * @param url the URL.
 * @param options the JSON to send, if any, and whether the response is read as JSON or as text.
 */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the caller names what the server returns
export function plainAttempt<T>(
  method: string,
  url: string,
  { body, text = false }: { body?: unknown; text?: boolean } = {},
): (init: AttemptInit) => Promise<AttemptResult<{ body: T }>> {
  return async ({ signal, fetch, headers }) => {
    const json = body === undefined ? undefined : JSON.stringify(body);
    const accept = text ? "*/*" : "application/json";
    const request = new Request(url, {
      method,
      signal,
      headers: { accept, ...(json !== undefined && { "content-type": "application/json" }), ...headers },
      redirect: "manual",
      ...(json !== undefined && { body: json }),
    });
    const response = await fetch(request);
    const received = await response.text();
    return response.ok
      ? { data: { body: (text ? received : JSON.parse(received)) as T }, response }
      : { error: parsedOrText(received), response };
  };
}

function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
