/**
 * All errors of the package, as one tree.
 *
 *     RagstoreError
 *     ├── InvalidInput                the arguments cannot be sent
 *     ├── InvalidConfiguration        a URL, an option of a client, a setting or a rag_config is invalid
 *     ├── CollectionMismatch          getOrCreate found a collection with other settings
 *     ├── IngestionFailed             documents of an ingestion were not stored
 *     ├── DocumentFailed              documents were not ingested by the gateway
 *     ├── TransportError              no complete response arrived
 *     │   ├── ConnectFailed           no connection: nothing was sent
 *     │   ├── ConnectionLost          the connection broke: the request may have arrived
 *     │   └── CallTimeout             no response in time
 *     ├── UnexpectedResponse          the response does not match the contract
 *     ├── ProblemError                the service responded with an error
 *     │   ├── BadRequest              400
 *     │   ├── Unauthorized            401
 *     │   ├── Forbidden               403
 *     │   ├── NotFound                404
 *     │   ├── RequestTimeout          408
 *     │   ├── Conflict                409
 *     │   ├── PayloadTooLarge         413
 *     │   ├── UnsupportedMediaType    415
 *     │   ├── TooManyRequests         429
 *     │   └── ServerError             5xx
 *     │       ├── BadGateway          502
 *     │       ├── Unavailable         503
 *     │       └── GatewayTimeout      504
 *     ├── EmbeddingFailed             the embeddings endpoint returned no usable vector
 *     └── ProviderError
 *         ├── UnknownProvider         no provider of that name is registered
 *         └── ProviderExists          the name is taken
 *
 * Match on `code`, not on texts: it is stable. For logs use `describe`: the other texts may repeat what a server sent.
 */

import type { Report } from "./outcomes.js";
import type { components } from "./schema.js";

type FieldError = components["schemas"]["FieldError"];

/** Base of every error that this package throws on purpose. */
export class RagstoreError extends Error {
  /** The HTTP method of the call that failed; empty if no call was made. */
  method = "";
  /** The call's URL, without user, password and query string. */
  url = "";
  /** The report of the `ingestAll` that this error ended. */
  declare report?: Report;

  override get name(): string {
    return this.constructor.name;
  }
}

/** The arguments of a call cannot be expressed in the contract. Nothing was sent. */
export class InvalidInput extends RagstoreError {}

/** A URL, an option of a client, an environment variable, a `rag_config` or a provider's configuration is invalid. */
export class InvalidConfiguration extends RagstoreError {}

/** `getOrCreate` found a collection with another distance function or embedding model than the options say. */
export class CollectionMismatch extends RagstoreError {}

/** No complete response arrived from the service. The message has the call, the reason and the attempts. */
export class TransportError extends RagstoreError {
  /** Number of attempts. */
  attempts = 1;
  /** Time from the start of the first attempt to the end of the last one. */
  elapsedMs = 0;
}

/** No connection could be made: refused, unknown host, TLS. Nothing was sent. */
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
  errorsOmitted?: number | undefined;
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
  /** Number of invalid fields that `errors` does not list. */
  readonly errorsOmitted: number;
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
    this.errorsOmitted = problem.errorsOmitted ?? 0;
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

/** The embeddings endpoint, or an embedder, returned no usable vector. */
export class EmbeddingFailed extends RagstoreError {}

/** A retrieval provider cannot be registered or selected. */
export class ProviderError extends RagstoreError {}

/** No provider of that name is registered. */
export class UnknownProvider extends ProviderError {}

/** A provider of that name is registered already. */
export class ProviderExists extends ProviderError {}

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

/** The class of the error for an HTTP status: the most specific one. */
export function problemClass(status: number): typeof ProblemError {
  return CLASS_BY_STATUS[status] ?? (status >= 500 ? ServerError : ProblemError);
}

/**
 * Describe an error for a log line: its class, with the HTTP status where there is one.
 *
 * Never a text from a server: a server may repeat what it was sent.
 */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) {
    return typeof error;
  }
  const status = (error as { status?: unknown }).status;
  return typeof status === "number" ? `${error.name} (${status})` : error.name;
}
