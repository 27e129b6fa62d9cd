/** Encoding of documents as the JSON of a request. */

import { toBase64 } from "./embeddings.js";
import { InvalidInput } from "./errors.js";
import type { NewDocument } from "./types.js";

/**
 * Encode one document as JSON.
 *
 * @throws InvalidInput if JSON cannot express its embedding or a value of its metadata.
 */
export function encodeDocument(document: NewDocument): string {
  const { id, text, embedding, metadata } = document;
  checkNumbers(metadata, "$.metadata");
  return JSON.stringify({ id, text, embedding: toBase64(embedding), metadata });
}

/** The body of a request from encoded documents. */
export function documentsBody(documents: readonly string[]): string {
  return `{"documents":[${documents.join(",")}]}`;
}

/**
 * Reject numbers that JSON cannot express: `JSON.stringify` would convert NaN to null, which means "absent".
 *
 * @throws InvalidInput with the path of the number.
 */
export function checkNumbers(value: unknown, path: string): void {
  if (typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value))) {
    throw new InvalidInput(`${path} must be a finite number`);
  }
  if (typeof value === "object" && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      checkNumbers(item, Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`);
    }
  }
}
