/** The result of an ingestion. */

import { RagstoreError } from "./errors.js";
import type { Failed, Progress, Report } from "./outcomes.js";

/** The result of an ingestion. */
export class IngestionReport implements Report {
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
