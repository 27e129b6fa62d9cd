/** The results of an ingestion. */

import { RagstoreError } from "./errors.js";

/** A document that the service confirmed as stored. */
export interface Stored {
  /** Its index in the ingested documents, from 0. */
  index: number;
  id: string;
  stored: true;
  error?: undefined;
}

/** A document that is not known to be stored. */
export interface Failed {
  /** Its index in the ingested documents, from 0. */
  index: number;
  /** Its id; undefined if it has none. */
  id: string | undefined;
  stored: false;
  /** Why. The message has the index and the id; the paths of a rejection begin with `$.documents[index]`. */
  error: Error;
}

/** The outcome of one document. */
export type Outcome = Stored | Failed;

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

/** The result of an ingestion. */
export class IngestionReport implements Progress {
  readonly read: number;
  readonly stored: number;
  readonly failed: number;
  readonly requests: number;

  constructor(
    { read, stored, failed, requests }: Progress,
    /** The first 1,000 documents that are not known to be stored. */
    readonly failures: readonly Failed[],
  ) {
    this.read = read;
    this.stored = stored;
    this.failed = failed;
    this.requests = requests;
  }

  /** @throws IngestionFailed if a document was not stored. */
  raiseForFailures(): void {
    const [first] = this.failures;
    if (first) {
      const message = `${this.failed} of ${this.read} documents were not stored, first ${first.error.message}`;
      throw new IngestionFailed(message, this, { cause: first.error });
    }
  }
}

/** Documents of an ingestion were not stored. */
export class IngestionFailed extends RagstoreError {
  /** The counts and the failures. */
  declare report: IngestionReport;

  constructor(
    message: string,
    report: IngestionReport,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.report = report;
  }
}
