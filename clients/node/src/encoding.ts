/** Documents as they stand in a request. */

import { toBase64 } from "./embeddings.js";
import { InvalidInput } from "./errors.js";
import type { NewDocument } from "./types.js";

/**
 * Write one document as JSON.
 *
 * @throws InvalidInput when its embedding, or a value of its metadata, cannot be sent.
 */
export function encodeDocument(document: NewDocument): string {
  const { id, text, embedding, metadata } = document;
  checkNumbers(metadata, "$.metadata");
  return JSON.stringify({ id, text, embedding: toBase64(embedding), metadata });
}

/** Put encoded documents together to the body of one request. */
export function documentsBody(documents: readonly string[]): string {
  return `{"documents":[${documents.join(",")}]}`;
}

/**
 * Refuse numbers that JSON does not have: `JSON.stringify` would make null of NaN, and null means "absent".
 *
 * @throws InvalidInput naming where it stands.
 */
export function checkNumbers(value: unknown, path: string): void {
  if (typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value))) {
    throw new InvalidInput(`${path} must be a finite number`);
  }
  if (typeof value === "object" && value !== null) {
    for (const [key, member] of Object.entries(value)) {
      checkNumbers(member, Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`);
    }
  }
}
