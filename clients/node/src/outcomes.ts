/** The outcomes of an ingestion. */

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

/** The counts and the failures of an ingestion. */
export interface Report extends Progress {
  /** The first 1,000 documents that are not known to be stored. */
  readonly failures: readonly Failed[];
  /** @throws IngestionFailed if a document was not stored. */
  raiseForFailures(): void;
}
