/**
 * What can go wrong, as one tree.
 *
 *     RagstoreError
 *     ├── InvalidInput                the arguments cannot be sent
 *     ├── TransportError              no whole answer came
 *     │   ├── ConnectFailed           no connection: nothing was sent
 *     │   ├── ConnectionLost          the connection broke: what was sent may have arrived
 *     │   └── CallTimeout             no answer in time
 *     ├── UnexpectedResponse          an answer came, but not one of the contract
 *     └── ProblemError                the service said no, in a problem document
 *         ├── InvalidRequest          400
 *         ├── Unauthorized            401
 *         ├── Forbidden               403
 *         ├── NotFound                404
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

/** The arguments of a call cannot be put into words of the contract. Nothing was sent. */
export class InvalidInput extends RagstoreError {}

/** No whole answer came from the service. */
export class TransportError extends RagstoreError {}

/** No connection could be made, so nothing was sent. */
export class ConnectFailed extends TransportError {}

/** The connection broke. What was sent may or may not have taken effect. */
export class ConnectionLost extends TransportError {}

/** No answer came in time. What was sent may or may not have taken effect. */
export class CallTimeout extends TransportError {}

/** The server answered with something that the contract does not know. */
export class UnexpectedResponse extends RagstoreError {
  constructor(
    message: string,
    /** The HTTP status of the answer. */
    readonly status: number,
  ) {
    super(message);
  }
}

/** What a problem document says, and what the answer's headers add to it. */
export interface ProblemDetails {
  status: number;
  type?: string;
  title?: string;
  detail?: string;
  errors?: readonly FieldError[];
  requestId?: string | undefined;
  retryAfterMs?: number | undefined;
}

/** The service refused or failed, and said so. */
export class ProblemError extends RagstoreError {
  /** The HTTP status. */
  readonly status: number;
  /** A URI that names the kind of problem. */
  readonly type: string;
  /** The kind of problem, in a few words. */
  readonly title: string;
  /** What is wrong, for the caller to read. */
  readonly detail: string;
  /** The fields to blame, if any. */
  readonly errors: readonly FieldError[];
  /** The id under which the service logged the request. */
  readonly requestId: string | undefined;
  /** Milliseconds after which trying again makes sense, when the service said so. */
  readonly retryAfterMs: number | undefined;

  constructor(problem: ProblemDetails) {
    super(problem.detail || problem.title || `HTTP ${problem.status}`);
    this.status = problem.status;
    this.type = problem.type ?? "about:blank";
    this.title = problem.title ?? "";
    this.detail = problem.detail ?? "";
    this.errors = problem.errors ?? [];
    this.requestId = problem.requestId;
    this.retryAfterMs = problem.retryAfterMs;
  }
}

/** 400: the request is malformed, or means something that is not allowed. Nothing was written. */
export class InvalidRequest extends ProblemError {}

/** 401: a key is needed, and none or an unknown one was sent. */
export class Unauthorized extends ProblemError {}

/** 403: the key does not allow this. */
export class Forbidden extends ProblemError {}

/** 404: the collection or document does not exist, or the key may not see it. */
export class NotFound extends ProblemError {}

/** 409: the collection, or an id among the documents, exists already. Nothing was written. */
export class Conflict extends ProblemError {}

/** 413: the body is larger than the service takes. */
export class PayloadTooLarge extends ProblemError {}

/** 415: the body is of a type that the service does not read. */
export class UnsupportedMediaType extends ProblemError {}

/** 429: this key has used up its rate. */
export class TooManyRequests extends ProblemError {}

/** 5xx: the service, or Chroma behind it, failed. */
export class ServerError extends ProblemError {}

/** 502: Chroma answered the service with something it could not use. */
export class BadGateway extends ServerError {}

/** 503: Chroma is away, or the service is full. `retryAfterMs` says when to come back. */
export class Unavailable extends ServerError {}

/** 504: Chroma did not answer the service in time. */
export class GatewayTimeout extends ServerError {}

const BY_STATUS: Readonly<Record<number, typeof ProblemError>> = {
  400: InvalidRequest,
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  413: PayloadTooLarge,
  415: UnsupportedMediaType,
  429: TooManyRequests,
  502: BadGateway,
  503: Unavailable,
  504: GatewayTimeout,
};

/**
 * The error that an answer stands for.
 *
 * @param response an answer that is no success; its body has been read.
 * @param body the parsed body; a text where it was no JSON, as a proxy's pages are.
 */
export function errorOf(response: Response, body: unknown): RagstoreError {
  const { status, headers } = response;
  if (status < 400) {
    return new UnexpectedResponse(`HTTP ${status} is no answer of the contract`, status);
  }
  const ErrorClass = BY_STATUS[status] ?? (status >= 500 ? ServerError : ProblemError);
  return new ErrorClass({
    ...members(body),
    status,
    requestId: headers.get("x-request-id") ?? undefined,
    retryAfterMs: retryAfter(headers.get("retry-after")),
  });
}

function members(body: unknown): Omit<ProblemDetails, "status"> {
  if (typeof body !== "object" || body === null) {
    return {};
  }
  const { type, title, detail, errors } = body as Record<string, unknown>;
  return {
    ...(typeof type === "string" && { type }),
    ...(typeof title === "string" && { title }),
    ...(typeof detail === "string" && { detail }),
    ...(Array.isArray(errors) && { errors: errors as FieldError[] }),
  };
}

/** `Retry-After`: seconds, or a date. */
function retryAfter(header: string | null): number | undefined {
  if (header === null) {
    return undefined;
  }
  const milliseconds = /^\s*\d+\s*$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : undefined;
}

/** Codes with which a connection is not made at all. */
const NO_CONNECTION = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** What `fetch` failed with, as an error of this tree. */
export function transportError(error: unknown): TransportError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const code = (cause as { code?: unknown } | null)?.code;
  const said = typeof code === "string" ? `: ${code}` : "";
  return typeof code === "string" && NO_CONNECTION.has(code)
    ? new ConnectFailed(`no connection${said}`, { cause: error })
    : new ConnectionLost(`the connection broke${said}`, { cause: error });
}
