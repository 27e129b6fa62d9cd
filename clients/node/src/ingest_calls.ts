/** The calls that ingest. */

import { DocumentCalls, writeDocuments } from "./documents.js";
import { type Documents, ingest, ingestAll, type IngestOptions, type Send } from "./ingest.js";
import type { IngestionReport } from "./ingestion_report.js";
import type { Outcome } from "./outcomes.js";
import { lasting, parseRetries } from "./retry.js";

/** The calls of a client that ingest documents. */
export class IngestCalls extends DocumentCalls {
  /**
   * Store any number of documents, and yield the outcome of each.
   *
   * The ingestion advances as its outcomes are iterated; `ingestAll` advances by itself. At most `concurrency` requests
   * are in flight and in memory; the source is not read meanwhile. Of a request that is rejected because of some
   * documents, exactly those fail. After an error, run it again from the last outcome or from the start: with `upsert`,
   * storing documents again has no further effect.
   *
   * @param source any iterable or stream. Each document needs an id. The last of several documents with the same id wins.
   * @returns an outcome for every document that was read, in order; then an error that ended the ingestion is thrown.
   */
  ingest(collection: string, source: Documents, options?: IngestOptions): AsyncGenerator<Outcome, void, undefined> {
    return ingest(this.#sender(collection), source, options);
  }

  /**
   * Store any number of documents, as `ingest` does, and return the counts and the failures.
   *
   * @throws RagstoreError the error that ended the ingestion, with a `report`. Rejected documents do not end it.
   */
  async ingestAll(collection: string, source: Documents, options?: IngestOptions): Promise<IngestionReport> {
    return await ingestAll(this.#sender(collection), source, options);
  }

  #sender(collection: string): Send {
    return (mode, body, options, retryMs) => {
      const retries = lasting({ ...this.core.retries, ...parseRetries(options.retries) }, retryMs);
      return writeDocuments(this.core, mode, collection, body, { ...options, retries });
    };
  }
}
