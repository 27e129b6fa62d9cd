/** A typed client of ragstore-gateway: knowledge bases, documents, searches, assistants, sources. */

export type { ClientOptions } from "../connection.js";
export type { CallOptions, Scalar, Where } from "../types.js";
export { GatewayClient, type RequestOptions } from "./client.js";
export { Configurations } from "./configurations.js";
export {
  type BlobDocument,
  type ContentOptions,
  type FileDocument,
  folderDocuments,
  MEDIA_TYPES,
  type NewContent,
  type PageDocument,
  type TextDocument,
} from "./contents.js";
export type { FolderOptions, IngestOptions } from "./ingest_calls.js";
export type { Contents } from "./ingestion.js";
export { DocumentFailed, type DocumentProgress, DocumentsReport, type IngestedDocument } from "./reports.js";
export type { components, operations, paths } from "./schema.js";
export type { RunOptions } from "./source_calls.js";
export type * from "./types.js";
