/** Encoding of documents as the JSON of a request. */

import { toBase64 } from "./embeddings.js";
import { InvalidInput } from "./errors.js";
import type { NewDocument } from "./types.js";

/**
 * Encode one document as JSON.
 *
 * @param path the document's path in the arguments, for errors.
 * @throws InvalidInput with the path, if JSON cannot express a part of it.
 */
export function encodeDocument(document: NewDocument, path = "$"): string {
  if (typeof document !== "object" || (document as unknown) === null) {
    throw new InvalidInput(`a document must be an object: ${path}`);
  }
  const { id, text, embedding, metadata } = document;
  checkString(text, `${path}.text`);
  if (id !== undefined && id !== null) {
    checkString(id, `${path}.id`);
  }
  checkMetadata(metadata, `${path}.metadata`);
  return JSON.stringify({ id, text, embedding: encodeEmbedding(embedding, `${path}.embedding`), metadata });
}

/** Encode documents that are written in one request. */
export function encodeDocuments(documents: Iterable<NewDocument>): string {
  return documentsBody(Array.from(documents, (document, index) => encodeDocument(document, `$.documents[${index}]`)));
}

/** The body of a request from encoded documents. */
export function documentsBody(documents: readonly string[]): string {
  return `{"documents":[${documents.join(",")}]}`;
}

/**
 * Check metadata. `JSON.stringify` would convert NaN to null, which means "absent", and a `Map` to an empty object.
 *
 * @throws InvalidInput with the path of what is no value of metadata.
 */
export function checkMetadata(metadata: unknown, path: string): void {
  if (metadata === undefined || metadata === null) {
    return;
  }
  if (!isPlainObject(metadata)) {
    throw new InvalidInput(`metadata must be an object: ${path}`);
  }
  for (const [key, value] of Object.entries(metadata)) {
    if (Array.isArray(value)) {
      value.forEach((item: unknown, index) => {
        checkScalar(item, `${path}.${key}[${index}]`);
      });
    } else if (value !== undefined && value !== null) {
      checkScalar(value, `${path}.${key}`);
    }
  }
}

function checkScalar(value: unknown, path: string): void {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new InvalidInput(`a number must be finite: ${path}`);
  }
  if (typeof value === "string") {
    checkString(value, path);
  } else if (typeof value !== "number" && typeof value !== "boolean") {
    throw new InvalidInput(`must be a string, a number, a boolean or an array of one of these: ${path}`);
  }
}

/** @throws InvalidInput if a value is no text, or has half of a surrogate pair. */
export function checkString(value: unknown, path: string): asserts value is string {
  if (typeof value !== "string") {
    throw new InvalidInput(`must be a string: ${path}`);
  }
  // In UTF-8 there is no half of a surrogate pair, as `slice` may leave it behind.
  if (/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/.test(value)) {
    throw new InvalidInput(`must be Unicode text without unpaired surrogates: ${path}`);
  }
}

function encodeEmbedding(embedding: NewDocument["embedding"], path: string): string {
  try {
    return toBase64(embedding);
  } catch (error) {
    throw error instanceof InvalidInput ? new InvalidInput(`${error.message}: ${path}`) : error;
  }
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value) as null);
}
