/**
 * All errors of the package, as one tree.
 *
 *     RagstoreError
 *     ├── InvalidInput                the arguments cannot be sent
 *     ├── TransportError              no complete response arrived
 *     │   ├── ConnectFailed           no connection: nothing was sent
 *     │   ├── ConnectionLost          the connection broke: the request may have arrived
 *     │   └── CallTimeout             no response in time
 *     ├── UnexpectedResponse          the response does not match the contract
 *     └── ProblemError                the service responded with an error
 *         ├── BadRequest              400
 *         ├── Unauthorized            401
 *         ├── Forbidden               403
 *         ├── NotFound                404
 *         ├── RequestTimeout          408
 *         ├── Conflict                409
 *         ├── PayloadTooLarge         413
 *         ├── UnsupportedMediaType    415
 *         ├── TooManyRequests         429
 *         └── ServerError             5xx
 *             ├── BadGateway          502
 *             ├── Unavailable         503
 *             └── GatewayTimeout      504
 */

import type { FieldError } from "./types.js";

/** Base of every error that this package throws on purpose. */
export class RagstoreError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

/** The arguments of a call cannot be expressed in the contract. Nothing was sent. */
export class InvalidInput extends RagstoreError {}

/** No complete response arrived from the service. */
export class TransportError extends RagstoreError {}

/** No connection could be made, so nothing was sent. */
export class ConnectFailed extends TransportError {}

/** The connection broke. The request may or may not have taken effect. */
export class ConnectionLost extends TransportError {}

/** No response arrived in time. The request may or may not have taken effect. */
export class CallTimeout extends TransportError {}

/** The response does not match the contract. */
export class UnexpectedResponse extends RagstoreError {
  constructor(
    message: string,
    /** The HTTP status of the response. */
    readonly status: number,
  ) {
    super(message);
  }
}

/** The members of a problem document, and values from the response's headers. */
export interface ProblemDetails {
  status: number;
  code?: string | undefined;
  type?: string;
  title?: string;
  detail?: string;
  errors?: readonly FieldError[];
  requestId?: string | undefined;
  retryAfterMs?: number | undefined;
}

/** The service responded with an error. */
export class ProblemError extends RagstoreError {
  /** The HTTP status. */
  readonly status: number;
  /**
   * The stable, machine-readable kind of problem, such as `collection_not_found`: see `ProblemCode` for the known ones.
   * Undefined if the server sent none, as a proxy or a service before version 0.2 does.
   */
  readonly code: string | undefined;
  /** A URI that identifies the kind of problem. */
  readonly type: string;
  /** The kind of problem, in a few words. */
  readonly title: string;
  /** The explanation, for people. */
  readonly detail: string;
  /** The invalid fields, if any. */
  readonly errors: readonly FieldError[];
  /** The id under which the service logged the request. */
  readonly requestId: string | undefined;
  /** Milliseconds after which to retry, if the service sent `Retry-After`. */
  readonly retryAfterMs: number | undefined;

  constructor(problem: ProblemDetails) {
    super(problem.detail || problem.title || `HTTP ${problem.status}`);
    this.status = problem.status;
    this.code = problem.code;
    this.type = problem.type ?? "about:blank";
    this.title = problem.title ?? "";
    this.detail = problem.detail ?? "";
    this.errors = problem.errors ?? [];
    this.requestId = problem.requestId;
    this.retryAfterMs = problem.retryAfterMs;
  }
}

/** 400: the request is malformed or invalid. Nothing was written. */
export class BadRequest extends ProblemError {}

/** 401: a key is required, and none or an unknown one was sent. */
export class Unauthorized extends ProblemError {}

/** 403: the key does not permit this call. */
export class Forbidden extends ProblemError {}

/** 404: the collection or document does not exist, or the key may not access it. */
export class NotFound extends ProblemError {}

/** 408: the request did not arrive completely within the time limit. Nothing was changed. */
export class RequestTimeout extends ProblemError {}

/** 409: the collection, or an id among the documents, exists already. Nothing was written. */
export class Conflict extends ProblemError {}

/** 413: the body is larger than the service accepts. */
export class PayloadTooLarge extends ProblemError {}

/** 415: the service does not support the body's media type. */
export class UnsupportedMediaType extends ProblemError {}

/** 429: the key exceeded its rate limit. */
export class TooManyRequests extends ProblemError {}

/** 5xx: the service, or Chroma behind it, failed. */
export class ServerError extends ProblemError {}

/** 502: the service received an invalid response from Chroma. */
export class BadGateway extends ServerError {}

/** 503: Chroma is unavailable, or the service is overloaded. Retry after `retryAfterMs`. */
export class Unavailable extends ServerError {}

/** 504: Chroma did not respond to the service in time. */
export class GatewayTimeout extends ServerError {}

const CLASS_BY_STATUS: Readonly<Record<number, typeof ProblemError>> = {
  400: BadRequest,
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  408: RequestTimeout,
  409: Conflict,
  413: PayloadTooLarge,
  415: UnsupportedMediaType,
  429: TooManyRequests,
  502: BadGateway,
  503: Unavailable,
  504: GatewayTimeout,
};

/**
 * The error for an unsuccessful response.
 *
 * @param response the response; its body has been read.
 * @param body the parsed body; a string if it was not JSON, such as a proxy's page.
 */
export function errorFrom(response: Response, body: unknown): RagstoreError {
  const { status, headers } = response;
  if (status < 400) {
    return new UnexpectedResponse(`HTTP ${status} does not match the contract`, status);
  }
  const ErrorClass = CLASS_BY_STATUS[status] ?? (status >= 500 ? ServerError : ProblemError);
  return new ErrorClass({
    ...problemMembers(body),
    status,
    requestId: headers.get("x-request-id") ?? undefined,
    retryAfterMs: retryAfter(headers.get("retry-after")),
  });
}

function problemMembers(body: unknown): Omit<ProblemDetails, "status"> {
  if (typeof body !== "object" || body === null) {
    return {};
  }
  const { code, type, title, detail, errors } = body as Record<string, unknown>;
  return {
    ...(typeof code === "string" && { code }),
    ...(typeof type === "string" && { type }),
    ...(typeof title === "string" && { title }),
    ...(typeof detail === "string" && { detail }),
    ...(Array.isArray(errors) && { errors: errors as FieldError[] }),
  };
}

/** The value of `Retry-After` in milliseconds. The header has seconds or a date. */
function retryAfter(header: string | null): number | undefined {
  if (header === null) {
    return undefined;
  }
  const milliseconds = /^\s*\d+\s*$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : undefined;
}

/** System error codes of connections that were never made. */
const NO_CONNECTION = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** The error for an exception of `fetch`. */
export function transportErrorFrom(error: unknown): TransportError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const code = (cause as { code?: unknown } | null)?.code;
  const suffix = typeof code === "string" ? `: ${code}` : "";
  return typeof code === "string" && NO_CONNECTION.has(code)
    ? new ConnectFailed(`no connection${suffix}`, { cause: error })
    : new ConnectionLost(`the connection broke${suffix}`, { cause: error });
}
