/**
 * Batch ingestion: any number of documents in requests of bounded size, of which a bounded number is on its way.
 *
 * The source is not pulled while the window is full, so a slow service slows the source and memory holds the window,
 * however long the documents go on. What is refused for a document's sake is tried again in parts, until the documents
 * to blame stand alone; what fails for another reason ends the ingestion.
 */

import { documentsBody, encodeDocument } from "./encoding.js";
import { Conflict, InvalidInput, InvalidRequest, PayloadTooLarge, type ProblemError } from "./errors.js";
import type { NewDocument } from "./types.js";

/** What became of one document. */
export interface Outcome {
  /** Its place in what was ingested, from 0. */
  index: number;
  /** Its id; undefined when it came without. */
  id: string | undefined;
  /** Whether the service said that it is stored. */
  stored: boolean;
  /** Why it is not known to be stored. */
  error?: Error;
}

/** How far an ingestion has come. */
export interface Progress {
  /** Documents read from the source. */
  read: number;
  /** Documents that the service said are stored. */
  stored: number;
  /** Documents that are not known to be stored. */
  failed: number;
  /** Requests answered. */
  requests: number;
}

export interface IngestOptions {
  /** `upsert`, or `add` where an id that exists must fail. */
  mode?: "upsert" | "add";
  /** Most requests at once: 4. */
  concurrency?: number;
  /** Most documents in a request: 1,000. A service takes 5,461 by default. */
  batchDocuments?: number;
  /** Most bytes in a request, but for a single document that is larger: 8 MiB. A service takes 64 MiB by default. */
  batchBytes?: number;
  /** Most requests that one batch may cost while the documents to blame are looked for: 64. */
  batchRequests?: number;
  /** Called when a batch is done. */
  onProgress?: (progress: Progress) => void;
  /** Ends the ingestion. What is on its way may or may not be stored. */
  signal?: AbortSignal;
  /** Longest wait for the answer to one try of a request. */
  timeoutMs?: number;
}

/** What an ingestion came to. */
export interface IngestSummary extends Progress {
  /** The first 1,000 documents that are not known to be stored. */
  failures: Outcome[];
}

export type Documents = Iterable<NewDocument> | AsyncIterable<NewDocument>;

/** Stores the body of one request, or throws. */
export type Send = (body: string, signal: AbortSignal) => Promise<unknown>;

/** A document on its way: its JSON, or the reason why it has none. */
interface Entry {
  index: number;
  id: string | undefined;
  body: string;
  bytes: number;
  error?: Error;
}

/** Documents that leave together. */
interface Batch {
  entries: Entry[];
  ids: Set<string>;
  bytes: number;
}

interface Departed {
  batch: Batch;
  outcomes: Promise<Outcome[]>;
}

/**
 * Store documents, and tell what became of each.
 *
 * @param send what stores one request.
 * @param documents what to store.
 * @returns an outcome for every document that was read, in their order; what ended the ingestion is thrown after them.
 */
export async function* ingest(
  send: Send,
  documents: Documents,
  options: IngestOptions = {},
): AsyncGenerator<Outcome, void, undefined> {
  const concurrency = positive("concurrency", options.concurrency ?? 4);
  const ingestion = new Ingestion(send, documents, options);
  const window: Departed[] = [];
  const oldest = async (): Promise<Outcome[]> => (await window.shift()?.outcomes) ?? [];
  let batch: Batch | undefined;
  try {
    for (;;) {
      while (window.length >= concurrency) {
        yield* await oldest();
      }
      batch = await ingestion.gather();
      // The later of two documents with one id must win, so it waits for the earlier.
      while (batch && !ingestion.failure && window.some((other) => !disjoint(other.batch.ids, batch?.ids))) {
        yield* await oldest();
      }
      if (!batch || ingestion.failure) {
        break;
      }
      window.push({ batch, outcomes: ingestion.deliver(batch) });
    }
    while (window.length > 0) {
      yield* await oldest();
    }
    yield* ingestion.giveUp(batch);
  } finally {
    await ingestion.close();
  }
  ingestion.throwFailure();
}

/** What the batches of one ingestion share. */
class Ingestion {
  /** What ends the ingestion, once something does. */
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
  #held: Entry | undefined;

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
      const entry = this.#held ?? (await this.#read());
      if (!entry) {
        break;
      }
      const tooLarge = batch.entries.length > 0 && batch.bytes + entry.bytes > this.#batchBytes;
      // An id may stand in a request once.
      if (tooLarge || (entry.id !== undefined && batch.ids.has(entry.id))) {
        this.#held = entry;
        break;
      }
      this.#held = undefined;
      batch.entries.push(entry);
      batch.bytes += entry.bytes + 1;
      if (entry.id !== undefined) {
        batch.ids.add(entry.id);
      }
    }
    return batch.entries.length > 0 ? batch : undefined;
  }

  /** Bring a batch to the service, in parts where it must be. Never rejects. */
  async deliver(batch: Batch): Promise<Outcome[]> {
    const errors = new Map<Entry, Error>();
    const sendable = batch.entries.filter((entry) => !entry.error);
    const waiting = sendable.length > 0 ? [sendable] : [];
    let requests = 0;
    let largest = 0;
    for (let part = waiting.shift(); part; part = waiting.shift()) {
      const error = this.failure ? this.failure.error : await this.#try(part);
      requests += 1;
      if (error === undefined) {
        largest = Math.max(largest, part.length);
      } else if (!blamesDocuments(error)) {
        this.#fail(error);
        for (const entry of part) {
          errors.set(entry, asError(error));
        }
      } else if (part.length > 1 && requests + waiting.length + 2 <= this.#batchRequests) {
        waiting.unshift(...parts(part, error));
      } else {
        for (const entry of part) {
          errors.set(entry, error);
        }
      }
    }
    if (requests > 1 && errors.size === 0) {
      // It went in parts and all of it was taken: it was too large, so the next ones are made smaller.
      this.#batchDocuments = Math.min(this.#batchDocuments, largest);
    }
    const outcomes = batch.entries.map((entry) => outcomeOf(entry, entry.error ?? errors.get(entry)));
    this.#report(outcomes);
    return outcomes;
  }

  /** What becomes of documents that were read and are not sent any more. */
  *giveUp(batch: Batch | undefined): Iterable<Outcome> {
    const error = this.failure && asError(this.failure.error);
    const entries = [...(batch?.entries ?? []), ...(this.#held ? [this.#held] : [])];
    this.#progress.failed += entries.length;
    yield* entries.map((entry) => outcomeOf(entry, entry.error ?? error));
  }

  /** Leave the source and the requests that are still on their way. */
  async close(): Promise<void> {
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    this.#abort.abort();
    await this.#source.close();
  }

  throwFailure(): void {
    const endedBy = this.failure ?? this.#sourceFailure;
    if (endedBy) {
      throw endedBy.error;
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

  async #try(part: readonly Entry[]): Promise<unknown> {
    try {
      await this.#send(documentsBody(part.map((entry) => entry.body)), this.#abort.signal);
      return undefined;
    } catch (error) {
      return error ?? new Error("no reason given");
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
      // What was read is delivered first.
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
      entry.error = new InvalidInput("a document needs an id to be ingested: it may be sent twice");
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

/** Reads an iterable of either kind, and can be told to wait no more for what it has to give. */
class Source<T> {
  readonly #iterator: Iterator<T> | AsyncIterator<T>;
  #ended = false;
  #wake: (() => void) | undefined;

  constructor(items: Iterable<T> | AsyncIterable<T>) {
    this.#iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  }

  async next(): Promise<IteratorResult<T, unknown>> {
    if (this.#ended) {
      return { done: true, value: undefined };
    }
    try {
      const result = await new Promise<IteratorResult<T, unknown>>((resolve, reject) => {
        this.#wake = () => {
          resolve({ done: true, value: undefined });
        };
        Promise.resolve(this.#iterator.next()).then((next) => {
          this.#wake = undefined;
          resolve(next);
        }, reject);
      });
      this.#ended ||= result.done === true;
      return result;
    } catch (error) {
      this.#ended = true;
      this.#wake = undefined;
      throw error;
    }
  }

  stop(): void {
    this.#wake?.();
  }

  async close(): Promise<void> {
    if (this.#wake) {
      // It still owes an item: it is told to end, and not waited for.
      void Promise.resolve(this.#iterator.return?.()).catch(() => undefined);
    } else if (!this.#ended) {
      await this.#iterator.return?.();
    }
  }
}

function positive(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1) {
    throw new InvalidInput(`${name} must be a whole number from 1`);
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

function disjoint(some: ReadonlySet<string>, others: ReadonlySet<string> | undefined): boolean {
  for (const id of others ?? []) {
    if (some.has(id)) {
      return false;
    }
  }
  return true;
}

function blamesDocuments(error: unknown): error is ProblemError {
  return error instanceof InvalidRequest || error instanceof Conflict || error instanceof PayloadTooLarge;
}

/** Divide a refused request: those to blame alone, or else in halves. */
function parts(part: readonly Entry[], error: ProblemError): Entry[][] {
  const blamed = new Set(error.errors.map((field) => /^(?:\$\.)?documents\[(\d+)\]/.exec(field.path)?.[1]));
  const alone = part.filter((_, position) => blamed.has(String(position)));
  if (alone.length > 0 && alone.length < part.length) {
    return [part.filter((_, position) => !blamed.has(String(position))), alone];
  }
  const middle = Math.floor(part.length / 2);
  return [part.slice(0, middle), part.slice(middle)];
}
