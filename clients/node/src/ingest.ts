/**
 * Batch ingestion: any number of documents in requests of limited size, with a limited number of requests in flight.
 *
 * The source is not read while that many requests are in flight, so a slow service slows the source, and memory is
 * bounded however many documents there are. A request that is rejected because of its documents is split and sent
 * again, until the rejected documents are isolated. Any other error ends the ingestion.
 */

import { documentsBody, encodeDocument } from "./encoding.js";
import { BadRequest, Conflict, InvalidInput, PayloadTooLarge, type ProblemError } from "./errors.js";
import { Source } from "./source.js";
import type { NewDocument } from "./types.js";

/** The outcome of one document. */
export interface Outcome {
  /** Its index in the ingested documents, from 0. */
  index: number;
  /** Its id; undefined if it has none. */
  id: string | undefined;
  /** Whether the service confirmed that it is stored. */
  stored: boolean;
  /** Why it is not known to be stored. */
  error?: Error;
}

/** The progress of an ingestion. */
export interface Progress {
  /** Number of documents read from the source. */
  read: number;
  /** Number of documents that the service confirmed as stored. */
  stored: number;
  /** Number of documents that are not known to be stored. */
  failed: number;
  /** Number of completed requests. */
  requests: number;
}

export interface IngestOptions {
  /** `upsert` by default; `add` rejects existing ids. */
  mode?: "upsert" | "add";
  /** Maximum number of requests in flight: 4 by default. */
  concurrency?: number;
  /** Maximum number of documents in a request: 1,000 by default. A service accepts 5,461 by default. */
  batchDocuments?: number;
  /**
   * Maximum size of a request's body, except for a single document that is larger: 8 MiB by default. A service accepts
   * 64 MiB by default.
   */
  batchBytes?: number;
  /**
   * Maximum number of requests for one batch while rejected documents are isolated: 64 by default. The documents that
   * remain then fail with the last error.
   */
  batchRequests?: number;
  /** Called after each batch. */
  onProgress?: (progress: Progress) => void;
  /** Aborts the ingestion. Documents in flight may or may not be stored. */
  signal?: AbortSignal;
  /** Maximum time for one attempt of a request, including its response. */
  timeoutMs?: number;
}

/** The result of an ingestion. */
export interface IngestSummary extends Progress {
  /** The first 1,000 documents that are not known to be stored. */
  failures: Outcome[];
}

export type Documents = Iterable<NewDocument> | AsyncIterable<NewDocument>;

/** Sends the body of one request, and rejects if the documents are not stored. */
export type Send = (body: string, signal: AbortSignal) => Promise<unknown>;

/** A document of a batch: its JSON, or the reason why it cannot be sent. */
interface Entry {
  index: number;
  id: string | undefined;
  body: string;
  bytes: number;
  error?: Error;
}

/** Documents that are sent together. */
interface Batch {
  entries: Entry[];
  ids: Set<string>;
  bytes: number;
}

/** A batch in flight. */
interface PendingBatch {
  batch: Batch;
  outcomes: Promise<Outcome[]>;
}

/**
 * Store documents, and yield the outcome of each.
 *
 * @param send sends one request.
 * @param documents the documents to store.
 * @returns an outcome for every document that was read, in order. An error that ends the ingestion is thrown after them.
 */
export async function* ingest(
  send: Send,
  documents: Documents,
  options: IngestOptions = {},
): AsyncGenerator<Outcome, void, undefined> {
  const concurrency = positive("concurrency", options.concurrency ?? 4);
  const ingestion = new Ingestion(send, documents, options);
  const inFlight: PendingBatch[] = [];
  const oldest = async (): Promise<Outcome[]> => (await inFlight.shift()?.outcomes) ?? [];
  let batch: Batch | undefined;
  try {
    for (;;) {
      while (inFlight.length >= concurrency) {
        yield* await oldest();
      }
      batch = await ingestion.gather();
      // The later of two documents with the same id must win, so it waits for the earlier one.
      while (batch && !ingestion.failure && inFlight.some((other) => !disjoint(other.batch.ids, batch?.ids))) {
        yield* await oldest();
      }
      if (!batch || ingestion.failure) {
        break;
      }
      inFlight.push({ batch, outcomes: ingestion.deliver(batch) });
    }
    while (inFlight.length > 0) {
      yield* await oldest();
    }
    yield* ingestion.discard(batch);
  } finally {
    await ingestion.close();
  }
  ingestion.throwFailure();
}

/** The state of one ingestion. */
class Ingestion {
  /** The error that ends the ingestion, once there is one. */
  failure: { error: unknown } | undefined;

  readonly #send: Send;
  readonly #source: Source<NewDocument>;
  readonly #options: IngestOptions;
  readonly #abort = new AbortController();
  readonly #progress: Progress = { read: 0, stored: 0, failed: 0, requests: 0 };
  readonly #batchBytes: number;
  readonly #batchRequests: number;
  #batchDocuments: number;
  #sourceFailure: { error: unknown } | undefined;
  #next: Entry | undefined;

  constructor(send: Send, documents: Documents, options: IngestOptions) {
    this.#batchDocuments = positive("batchDocuments", options.batchDocuments ?? 1000);
    this.#batchBytes = positive("batchBytes", options.batchBytes ?? 8 * 1024 * 1024);
    this.#batchRequests = positive("batchRequests", options.batchRequests ?? 64);
    options.signal?.throwIfAborted();
    this.#send = send;
    this.#options = options;
    this.#source = new Source(documents);
    options.signal?.addEventListener("abort", this.#onAbort);
  }

  /** Read documents until a batch is full, the source ends, or the ingestion does. */
  async gather(): Promise<Batch | undefined> {
    const batch: Batch = { entries: [], ids: new Set(), bytes: 0 };
    while (!this.failure && batch.entries.length < this.#batchDocuments) {
      const entry = this.#next ?? (await this.#read());
      if (!entry) {
        break;
      }
      const tooLarge = batch.entries.length > 0 && batch.bytes + entry.bytes > this.#batchBytes;
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

  /** Deliver a batch to the service, in several requests where necessary. Never rejects. */
  async deliver(batch: Batch): Promise<Outcome[]> {
    const errors = new Map<Entry, Error>();
    const sendable = batch.entries.filter((entry) => !entry.error);
    const pending = sendable.length > 0 ? [sendable] : [];
    let requests = 0;
    let largest = 0;
    for (let chunk = pending.shift(); chunk; chunk = pending.shift()) {
      const error = this.failure ? this.failure.error : await this.#sendChunk(chunk);
      requests += 1;
      if (error === undefined) {
        largest = Math.max(largest, chunk.length);
      } else if (!isRejection(error)) {
        this.#fail(error);
        for (const entry of chunk) {
          errors.set(entry, asError(error));
        }
      } else if (chunk.length > 1 && requests + pending.length + 2 <= this.#batchRequests) {
        pending.unshift(...split(chunk, error));
      } else {
        for (const entry of chunk) {
          errors.set(entry, error);
        }
      }
    }
    if (requests > 1 && errors.size === 0) {
      // Its chunks were all accepted, so the batch was too large. The next ones are smaller.
      this.#batchDocuments = Math.min(this.#batchDocuments, largest);
    }
    const outcomes = batch.entries.map((entry) => outcomeOf(entry, entry.error ?? errors.get(entry)));
    this.#report(outcomes);
    return outcomes;
  }

  /** The outcomes of documents that were read and will not be sent. */
  *discard(batch: Batch | undefined): Iterable<Outcome> {
    const error = this.failure && asError(this.failure.error);
    const entries = [...(batch?.entries ?? []), ...(this.#next ? [this.#next] : [])];
    this.#progress.failed += entries.length;
    yield* entries.map((entry) => outcomeOf(entry, entry.error ?? error));
  }

  /** Close the source, and abort requests in flight. */
  async close(): Promise<void> {
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    this.#abort.abort();
    await this.#source.close();
  }

  throwFailure(): void {
    const failure = this.failure ?? this.#sourceFailure;
    if (failure) {
      throw failure.error;
    }
  }

  readonly #onAbort = (): void => {
    this.#fail(this.#options.signal?.reason);
    this.#abort.abort(this.#options.signal?.reason);
  };

  #fail(error: unknown): void {
    this.failure ??= { error };
    this.#source.stop();
  }

  /** Send one request. Resolves with its error; undefined if it succeeded. */
  async #sendChunk(chunk: readonly Entry[]): Promise<unknown> {
    try {
      await this.#send(documentsBody(chunk.map((entry) => entry.body)), this.#abort.signal);
      return undefined;
    } catch (error) {
      return error ?? new Error("unknown error");
    } finally {
      this.#progress.requests += 1;
    }
  }

  async #read(): Promise<Entry | undefined> {
    let document: NewDocument;
    try {
      const next = await this.#source.next();
      if (next.done) {
        return undefined;
      }
      document = next.value;
    } catch (error) {
      // The documents that were read are delivered first.
      this.#sourceFailure ??= { error };
      return undefined;
    }
    return this.#entry(document);
  }

  #entry(document: NewDocument): Entry {
    const index = this.#progress.read;
    this.#progress.read += 1;
    const id = document.id ?? undefined;
    const entry: Entry = { index, id, body: "", bytes: 0 };
    if (id === undefined) {
      entry.error = new InvalidInput("a document needs an id to be ingested, because it may be sent twice");
      return entry;
    }
    try {
      entry.body = encodeDocument(document);
      entry.bytes = Buffer.byteLength(entry.body);
    } catch (error) {
      entry.error = asError(error);
    }
    return entry;
  }

  #report(outcomes: readonly Outcome[]): void {
    const stored = outcomes.filter((outcome) => outcome.stored).length;
    this.#progress.stored += stored;
    this.#progress.failed += outcomes.length - stored;
    try {
      this.#options.onProgress?.({ ...this.#progress });
    } catch (error) {
      this.#fail(error);
    }
  }
}

function positive(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1) {
    throw new InvalidInput(`${name} must be an integer of at least 1`);
  }
  return value;
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function outcomeOf(entry: Entry, error: Error | undefined): Outcome {
  const { index, id } = entry;
  return error ? { index, id, stored: false, error } : { index, id, stored: true };
}

function disjoint(first: ReadonlySet<string>, second: ReadonlySet<string> | undefined): boolean {
  for (const id of second ?? []) {
    if (first.has(id)) {
      return false;
    }
  }
  return true;
}

/** Whether a request was rejected because of its documents. */
function isRejection(error: unknown): error is ProblemError {
  return error instanceof BadRequest || error instanceof Conflict || error instanceof PayloadTooLarge;
}

const TOO_LARGE_CODES: ReadonlySet<string | undefined> = new Set(["batch_too_large", "body_too_large"]);

/** Split a rejected request: the rejected documents apart from the others, or else into halves. */
function split(entries: readonly Entry[], error: ProblemError): Entry[][] {
  const rejected = isTooLarge(error) ? new Set<number>() : rejectedIndexes(error);
  const isolated = entries.filter((_, index) => rejected.has(index));
  if (isolated.length > 0 && isolated.length < entries.length) {
    return [entries.filter((_, index) => !rejected.has(index)), isolated];
  }
  const middle = Math.floor(entries.length / 2);
  return [entries.slice(0, middle), entries.slice(middle)];
}

/** Whether the number of documents or bytes was rejected, rather than certain documents. */
function isTooLarge(error: ProblemError): boolean {
  return error instanceof PayloadTooLarge || TOO_LARGE_CODES.has(error.code);
}

/** The 3 of `$.documents[3].embedding`, for each field of a problem. */
function rejectedIndexes(error: ProblemError): Set<number> {
  const indexes = error.errors.map(({ path }) => /^(?:\$\.)?documents\[(\d+)\]/.exec(path)?.[1]);
  return new Set(indexes.filter((index) => index !== undefined).map(Number));
}
