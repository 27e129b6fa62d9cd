export { Client, type ClientOptions } from "./client.js";
export { toBase64 } from "./embeddings.js";
export {
  BadGateway,
  BadRequest,
  CallTimeout,
  Conflict,
  ConnectFailed,
  ConnectionLost,
  Forbidden,
  GatewayTimeout,
  InvalidInput,
  NotFound,
  PayloadTooLarge,
  type ProblemDetails,
  ProblemError,
  RagstoreError,
  RequestTimeout,
  ServerError,
  TooManyRequests,
  TransportError,
  Unauthorized,
  Unavailable,
  UnexpectedResponse,
  UnsupportedMediaType,
} from "./errors.js";
export type { Documents, IngestOptions, IngestSummary, Outcome, Progress } from "./ingest.js";
export { DEFAULT_RETRIES, type RetryPolicy } from "./retry.js";
export type { components, operations, paths } from "./schema.js";
export type { CallOptions, Fetch } from "./transport.js";
export type * from "./types.js";
