/** Batches of an ingestion: documents are encoded as they are read, and collected up to the limits of a request. */

import { dimensionOf } from "./embeddings.js";
import { encodeDocument } from "./encoding.js";
import { InvalidInput } from "./errors.js";
import type { NewDocument } from "./types.js";

/** A document of a batch: its JSON, or the reason why it cannot be sent. */
export interface Entry {
  index: number;
  id: string | undefined;
  body: string;
  bytes: number;
  /** Dimension of its embedding. */
  dimension: number;
  error?: Error;
}

/** Documents that are sent together. */
export interface Batch {
  entries: Entry[];
  ids: Set<string>;
  bytes: number;
}

const encoder = new TextEncoder();

/** Collects entries until a batch is full. */
export class Batcher {
  /** Maximum number of documents in a batch. It is reduced to what the service accepts. */
  maxDocuments: number;
  readonly #maxBytes: number;
  /** An entry that did not fit into the last batch. */
  #next: Entry | undefined;

  constructor(maxDocuments: number, maxBytes: number) {
    this.maxDocuments = maxDocuments;
    this.#maxBytes = maxBytes;
  }

  /** The entry that was read, and is in no batch. */
  get remaining(): Entry[] {
    return this.#next ? [this.#next] : [];
  }

  /**
   * Collect a batch.
   *
   * @param read reads the next entry; resolves with undefined if there is none.
   */
  async gather(read: () => Promise<Entry | undefined>): Promise<Batch | undefined> {
    const batch: Batch = { entries: [], ids: new Set(), bytes: 0 };
    while (batch.entries.length < this.maxDocuments) {
      const entry = this.#next ?? (await read());
      if (!entry) {
        break;
      }
      const tooLarge = batch.entries.length > 0 && batch.bytes + entry.bytes > this.#maxBytes;
      // An id may occur once in a request.
      if (tooLarge || (entry.id !== undefined && batch.ids.has(entry.id))) {
        this.#next = entry;
        break;
      }
      this.#next = undefined;
      batch.entries.push(entry);
      batch.bytes += entry.bytes + 1;
      if (entry.id !== undefined) {
        batch.ids.add(entry.id);
      }
    }
    return batch.entries.length > 0 ? batch : undefined;
  }
}

/** Encode a document. One that cannot be sent becomes an entry with an error, whatever it is. */
export function entryOf(document: NewDocument, index: number): Entry {
  const entry: Entry = { index, id: undefined, body: "", bytes: 0, dimension: 0 };
  try {
    const id: unknown = (document as NewDocument | null | undefined)?.id ?? undefined;
    entry.id = typeof id === "string" ? id : undefined;
    entry.body = encodeDocument(document, `$.documents[${index}]`);
    entry.dimension = dimensionOf(document.embedding);
    if (id === undefined) {
      throw new InvalidInput(`a document needs an id to be ingested, because it may be sent twice: $.documents[${index}].id`);
    }
    entry.bytes = encoder.encode(entry.body).byteLength;
  } catch (error) {
    // Reading a field may fail in any way: it may be a getter of another library.
    const reason = asError(error);
    const message = `document ${index}${named(entry.id)}: ${reason.message}`;
    entry.error = new InvalidInput(message, { cause: reason });
  }
  return entry;
}

/** The id of a document, for a message. */
export function named(id: string | undefined): string {
  return id === undefined ? "" : ` ('${id.length > 100 ? `${id.slice(0, 99)}…` : id}')`;
}

export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** Whether no document of one batch has the id of a document of the other one. */
export function disjoint(first: Batch, second: Batch): boolean {
  for (const id of second.ids) {
    if (first.ids.has(id)) {
      return false;
    }
  }
  return true;
}
