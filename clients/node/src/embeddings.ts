/** Encoding of embeddings: base64 of little-endian float32. */

import { endianness } from "node:os";

import { InvalidInput } from "./errors.js";
import type { Embedding } from "./types.js";

const LITTLE_ENDIAN = endianness() === "LE";

/**
 * Encode an embedding for a request.
 *
 * @param embedding numbers; a string must be base64 already and is returned unchanged.
 * @throws InvalidInput if it is empty or does not consist of numbers.
 */
export function toBase64(embedding: Embedding): string {
  if (typeof embedding === "string") {
    return embedding;
  }
  const values = embedding instanceof Float32Array ? embedding : toFloat32(embedding);
  if (values.length === 0) {
    throw new InvalidInput("an embedding must not be empty");
  }
  if (LITTLE_ENDIAN) {
    return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64");
  }
  // `swap32` works in place, so it gets a copy.
  return Buffer.from(new Float32Array(values).buffer).swap32().toString("base64");
}

function toFloat32(embedding: Float64Array | readonly number[]): Float32Array {
  if (embedding instanceof Float64Array) {
    return new Float32Array(embedding);
  }
  // `Float32Array.from` would convert null to 0 and "3" to 3.
  if (!Array.isArray(embedding) || embedding.some((value) => typeof value !== "number")) {
    throw new InvalidInput("an embedding must be numbers");
  }
  return Float32Array.from(embedding);
}
