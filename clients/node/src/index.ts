export { Client, DEFAULT_URL } from "./client.js";
export type { CollectionHandle } from "./collection_handle.js";
export type { ClientOptions } from "./connection.js";
export type { GetDocumentOptions, UpdateOptions } from "./documents.js";
export { Base64, toBase64, toFloat32 } from "./embeddings.js";
export {
  BadGateway,
  BadRequest,
  CallTimeout,
  CollectionMismatch,
  Conflict,
  ConnectFailed,
  ConnectionLost,
  describe,
  EmbeddingFailed,
  Forbidden,
  GatewayTimeout,
  InvalidConfiguration,
  InvalidInput,
  NotFound,
  PayloadTooLarge,
  type ProblemDetails,
  ProblemError,
  ProviderError,
  ProviderExists,
  RagstoreError,
  RequestTimeout,
  ServerError,
  TooManyRequests,
  TransportError,
  Unauthorized,
  Unavailable,
  UnexpectedResponse,
  UnknownProvider,
  UnsupportedMediaType,
} from "./errors.js";
export type { Documents, IngestOptions } from "./ingest.js";
export { IngestionFailed, IngestionReport } from "./ingestion_report.js";
export type { Failed, Outcome, Progress, Report, Stored } from "./outcomes.js";
export type { BatchOptions } from "./queries.js";
export { DEFAULT_RETRIES, NO_RETRIES, type Retries, type RetryPolicy } from "./retry.js";
export type { components, operations, paths } from "./schema.js";
export type { Fetch } from "./transport.js";
export type * from "./types.js";
