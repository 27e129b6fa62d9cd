/** Encoding of embeddings: base64 of little-endian float32. */

import { InvalidInput } from "./errors.js";

/** An embedding that is encoded already: base64 of little-endian float32 values. */
export class Base64 {
  /** @throws InvalidInput if the text is not the base64 of float32 values. */
  constructor(readonly value: string) {
    // 4 characters are 3 bytes; without the padding, the bytes must be whole float32 values.
    const digits = typeof value === "string" ? value.replace(/={1,2}$/, "") : "";
    if (!/^[A-Za-z0-9+/]+$/.test(digits) || value.length % 4 !== 0 || Math.floor((digits.length * 3) / 4) % 4 !== 0) {
      throw new InvalidInput("not the base64 of float32 values");
    }
  }
}

/** An embedding: numbers, or the base64 of their little-endian float32 bytes. */
export type Embedding = Float32Array | Float64Array | readonly number[] | Base64;

const LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

interface BufferConstructor {
  from: (buffer: ArrayBufferLike, offset: number, length: number) => { toString: (encoding: "base64") => string };
}

/** The `Buffer` of Node, Bun and Deno, which encodes faster than `btoa`. */
const { Buffer } = globalThis as { Buffer?: BufferConstructor };

/**
 * Encode an embedding for a request.
 *
 * @throws InvalidInput if it is empty or does not consist of numbers that float32 can express.
 */
export function toBase64(embedding: Embedding): string {
  if (embedding instanceof Base64) {
    return embedding.value;
  }
  const values = toFloat32(embedding);
  return bytesToBase64(LITTLE_ENDIAN ? new Uint8Array(values.buffer, values.byteOffset, values.byteLength) : swapped(values));
}

/** Encode bytes as base64. */
export function bytesToBase64(bytes: Uint8Array): string {
  if (Buffer) {
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  }
  let binary = "";
  // The number of arguments of a call is limited.
  for (let start = 0; start < bytes.length; start += 8192) {
    binary += String.fromCharCode(...bytes.subarray(start, start + 8192));
  }
  return btoa(binary);
}

/** Number of components of an embedding. */
export function dimensionOf(embedding: Embedding): number {
  return embedding instanceof Base64 ? Math.floor((embedding.value.replace(/=+$/, "").length * 3) / 16) : embedding.length;
}

/**
 * Convert an embedding to float32.
 *
 * @throws InvalidInput if it is empty or does not consist of numbers that float32 can express.
 */
export function toFloat32(embedding: Embedding): Float32Array {
  const values = convert(embedding);
  if (values.length === 0) {
    throw new InvalidInput("an embedding must not be empty");
  }
  for (const value of values) {
    if (!Number.isFinite(value)) {
      throw new InvalidInput("an embedding must consist of finite float32 numbers");
    }
  }
  return values;
}

function convert(embedding: Embedding): Float32Array {
  if (embedding instanceof Float32Array) {
    return embedding;
  }
  if (embedding instanceof Float64Array) {
    return new Float32Array(embedding);
  }
  if (embedding instanceof Base64) {
    const bytes = Uint8Array.from(atob(embedding.value), (character) => character.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float32Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(index * 4, true));
  }
  if (typeof embedding === "string") {
    throw new InvalidInput(
      "an embedding must be numbers, not a text: the service searches vectors; embed the text first. Base64 is wrapped in `new Base64(...)`",
    );
  }
  // `Float32Array.from` would convert null to 0 and "3" to 3.
  if (!Array.isArray(embedding) || embedding.some((value) => typeof value !== "number")) {
    throw new InvalidInput("an embedding must be numbers");
  }
  return Float32Array.from(embedding);
}

function swapped(values: Float32Array): Uint8Array {
  const view = new DataView(new ArrayBuffer(values.byteLength));
  values.forEach((value, index) => {
    view.setFloat32(index * 4, value, true);
  });
  return new Uint8Array(view.buffer);
}
