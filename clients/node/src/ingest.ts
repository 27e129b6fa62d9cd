/**
 * Batch ingestion: any number of documents in requests of limited size, with a limited number of requests in flight.
 *
 * The source is not read while that many requests are in flight, so a slow service slows the source, and memory is
 * bounded however many documents there are.
 */

import { integer, type Names, parseOptions } from "./arguments.js";
import { asError, type Batch, Batcher, disjoint, type Entry, entryOf } from "./batches.js";
import { deliver } from "./delivery.js";
import { InvalidInput, RagstoreError } from "./errors.js";
import { IngestionReport } from "./ingestion_report.js";
import type { Failed, Outcome, Progress } from "./outcomes.js";
import { warn } from "./runtime.js";
import { isIterable, Source } from "./source.js";
import type { CallOptions, NewDocument } from "./types.js";

/** The options of an ingestion, apart from those of its requests. */
interface OwnOptions {
  /** `upsert` by default; `add` rejects existing ids. */
  mode?: "upsert" | "add" | undefined;
  /** Maximum number of requests in flight: 4 by default. */
  concurrency?: number | undefined;
  /** Maximum number of documents in a request: 1,000 by default. A service accepts 5,461 by default. */
  batchDocuments?: number | undefined;
  /**
   * Maximum size of a request's body, except for a single document that is larger: 8 MiB by default. A service accepts
   * 64 MiB by default.
   */
  batchBytes?: number | undefined;
  /** Time for which a request is retried while the service is unavailable: 60,000 by default. */
  retryMs?: number | undefined;
  /** Called after each batch. */
  onProgress?: ((progress: Progress) => void) | undefined;
}

/** The options of an ingestion. `signal` aborts it: documents in flight may or may not be stored. */
export type IngestOptions = OwnOptions & CallOptions;

/** A source of documents: an array, a generator, a stream, a cursor of a database. */
export type Documents = Iterable<NewDocument> | AsyncIterable<NewDocument> | ReadableStream<NewDocument>;

/** Sends the body of one request, and rejects if the documents are not stored. */
export type Send = (mode: "upsert" | "add", body: string, options: CallOptions, retryMs: number) => Promise<unknown>;

const NAMES: Names<OwnOptions> = {
  mode: true,
  concurrency: true,
  batchDocuments: true,
  batchBytes: true,
  retryMs: true,
  onProgress: true,
};

const MAX_FAILURES = 1000;

/** A batch in flight. */
interface PendingBatch {
  batch: Batch;
  outcomes: Promise<Outcome[]>;
}

const unused = new FinalizationRegistry(({ started }: { started: boolean }) => {
  if (!started) {
    warn("ingest() was called and never iterated, so nothing was stored: iterate over it, or use ingestAll()");
  }
});

/**
 * Store documents, and yield the outcome of each.
 *
 * @param send sends one request.
 * @param documents the documents to store.
 * @returns an outcome for every document that was read, in order. An error that ends the ingestion is thrown after them.
 * @throws InvalidInput if the options are invalid, or the documents cannot be iterated.
 */
export function ingest(
  send: Send,
  documents: Documents,
  options?: IngestOptions,
): AsyncGenerator<Outcome, void, undefined> {
  const ingestion = new Ingestion(send, documents, options);
  const state = { started: false };
  const outcomes = run(ingestion, state);
  unused.register(outcomes, state);
  return outcomes;
}

/**
 * Store all documents, and return a report.
 *
 * @throws RagstoreError the error that ended the ingestion, with a `report`. Rejected documents do not end it.
 */
export async function ingestAll(send: Send, documents: Documents, options?: IngestOptions): Promise<IngestionReport> {
  const ingestion = new Ingestion(send, documents, options);
  const failures: Failed[] = [];
  try {
    for await (const outcome of run(ingestion)) {
      if (!outcome.stored && failures.length < MAX_FAILURES) {
        failures.push(outcome);
      }
    }
  } catch (error) {
    if (error instanceof RagstoreError) {
      error.report = new IngestionReport(ingestion.progress, failures);
    }
    throw error;
  }
  return new IngestionReport(ingestion.progress, failures);
}

async function* run(
  ingestion: Ingestion,
  state: { started?: boolean } = {},
): AsyncGenerator<Outcome, void, undefined> {
  state.started = true;
  ingestion.start();
  const inFlight: PendingBatch[] = [];
  const oldest = async (): Promise<Outcome[]> => (await inFlight.shift()?.outcomes) ?? [];
  let batch: Batch | undefined;
  try {
    for (;;) {
      while (inFlight.length >= ingestion.concurrency) {
        yield* await oldest();
      }
      batch = await ingestion.gather();
      // The later of two documents with the same id must win, so it waits for the earlier one.
      while (batch && !ingestion.failure && inFlight.some((other) => batch && !disjoint(other.batch, batch))) {
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
  readonly progress: Progress = { read: 0, stored: 0, failed: 0, requests: 0 };
  readonly concurrency: number;

  readonly #send: (body: string) => Promise<unknown>;
  readonly #documents: Documents;
  readonly #batcher: Batcher;
  readonly #signal: AbortSignal | undefined;
  readonly #onProgress: ((progress: Progress) => void) | undefined;
  readonly #abort = new AbortController();
  #source: Source<NewDocument> | undefined;
  #sourceFailure: { error: unknown } | undefined;

  constructor(send: Send, documents: Documents, options?: IngestOptions) {
    const { call, own } = parseOptions<OwnOptions>("ingest", options, NAMES);
    const { mode = "upsert", concurrency = 4, batchDocuments = 1000, batchBytes = 8 * 1024 * 1024 } = own;
    if (!isIterable(documents)) {
      throw new InvalidInput("the documents must be an array, or another iterable or asynchronous iterable, of documents");
    }
    if (!["upsert", "add"].includes(mode)) {
      throw new InvalidInput("mode must be 'upsert' or 'add'");
    }
    const { retryMs = 60_000 } = own;
    if (!(retryMs >= 0)) {
      throw new InvalidInput("retryMs must be a number of at least 0");
    }
    this.concurrency = integer("concurrency", concurrency, 1);
    this.#batcher = new Batcher(integer("batchDocuments", batchDocuments, 1), integer("batchBytes", batchBytes, 1));
    this.#signal = call.signal;
    this.#onProgress = own.onProgress;
    this.#documents = documents;
    this.#send = (body) => send(mode, body, { ...call, signal: this.#abort.signal }, retryMs);
  }

  start(): void {
    this.#signal?.throwIfAborted();
    this.#source = new Source(this.#documents);
    this.#signal?.addEventListener("abort", this.#onAbort);
  }

  /** Read documents until a batch is full, the source ends, or the ingestion does. */
  async gather(): Promise<Batch | undefined> {
    return await this.#batcher.gather(async () => (this.failure ? undefined : await this.#read()));
  }

  /** Deliver a batch to the service. Never rejects. */
  async deliver(batch: Batch): Promise<Outcome[]> {
    const { errors, failure, maxDocuments } = await deliver(batch, (body) => this.#sendChunk(body));
    if (failure) {
      this.#fail(failure.error);
    }
    if (maxDocuments !== undefined) {
      // Its chunks were all accepted, so the batch was too large. The next ones are smaller.
      this.#batcher.maxDocuments = Math.min(this.#batcher.maxDocuments, maxDocuments);
    }
    const outcomes = batch.entries.map((entry) => outcomeOf(entry, entry.error ?? errors.get(entry)));
    const stored = outcomes.filter((outcome) => outcome.stored).length;
    this.progress.stored += stored;
    this.progress.failed += outcomes.length - stored;
    try {
      this.#onProgress?.({ ...this.progress });
    } catch (error) {
      this.#fail(error);
    }
    return outcomes;
  }

  /** The outcomes of documents that were read and will not be sent. */
  *discard(batch: Batch | undefined): Iterable<Outcome> {
    const error = this.failure && asError(this.failure.error);
    const entries = [...(batch?.entries ?? []), ...this.#batcher.remaining];
    this.progress.failed += entries.length;
    yield* entries.map((entry) => outcomeOf(entry, entry.error ?? error));
  }

  /** Close the source, and abort requests in flight. */
  async close(): Promise<void> {
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#abort.abort();
    await this.#source?.close();
  }

  throwFailure(): void {
    const failure = this.failure ?? this.#sourceFailure;
    if (failure) {
      throw failure.error;
    }
  }

  readonly #onAbort = (): void => {
    this.#fail(this.#signal?.reason);
    this.#abort.abort(this.#signal?.reason);
  };

  #fail(error: unknown): void {
    this.failure ??= { error };
    this.#source?.stop();
  }

  async #sendChunk(body: string): Promise<void> {
    if (this.failure) {
      throw this.failure.error;
    }
    try {
      await this.#send(body);
    } finally {
      this.progress.requests += 1;
    }
  }

  async #read(): Promise<Entry | undefined> {
    try {
      const next = await this.#source?.next();
      if (next === undefined || next.done) {
        return undefined;
      }
      this.progress.read += 1;
      return entryOf(next.value, this.progress.read - 1);
    } catch (error) {
      // The documents that were read are delivered first.
      this.#sourceFailure ??= { error };
      return undefined;
    }
  }
}

function outcomeOf({ index, id }: Entry, error: Error | undefined): Outcome {
  return error || id === undefined
    ? { index, id, stored: false, error: error ?? new InvalidInput("a document needs an id") }
    : { index, id, stored: true };
}
