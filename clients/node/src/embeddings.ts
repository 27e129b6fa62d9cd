/** Embeddings as the contract writes them: little-endian float32, in base64. */

import { endianness } from "node:os";

import { InvalidInput } from "./errors.js";

/** An embedding: numbers, or the base64 of their little-endian float32 bytes. */
export type Embedding = Float32Array | Float64Array | readonly number[] | string;

const LITTLE_ENDIAN = endianness() === "LE";

/**
 * Write an embedding as it travels.
 *
 * @param embedding numbers; a string is taken to be base64 already and passed on as it is.
 * @throws InvalidInput when it is empty, or not numbers.
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
  // A copy: the caller's own must not be turned round.
  return Buffer.from(new Float32Array(values).buffer).swap32().toString("base64");
}

function toFloat32(embedding: Float64Array | readonly number[]): Float32Array {
  if (embedding instanceof Float64Array) {
    return new Float32Array(embedding);
  }
  // `Float32Array.from` would make 0 of null and 3 of "3".
  if (!Array.isArray(embedding) || embedding.some((value) => typeof value !== "number")) {
    throw new InvalidInput("an embedding must be numbers");
  }
  return Float32Array.from(embedding);
}
