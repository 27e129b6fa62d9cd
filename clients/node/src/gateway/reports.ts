/** The outcomes of an ingestion. */

import { RagstoreError } from "../errors.js";

const MAX_NAMED = 3;

/** The outcome of a document that was ingested, or could not be. */
export interface IngestedDocument {
  name: string;
  /** Whether searches find it. */
  ok: boolean;
  /** Number of its chunks. */
  chunks: number;
  /** Whether the document had this content before, so that nothing was embedded. */
  unchanged: boolean;
  /** Why it was not ingested; empty if it was. */
  error: string;
  /** The code of the error, if the gateway rejected the document; empty otherwise. */
  code: string;
}

/** The progress of an ingestion. */
export interface DocumentProgress {
  /** The document; empty for a change of `waitingFor` alone. */
  name: string;
  /** The share of the document that is done, 0 to 1. */
  share: number;
  /** Whether the document has ended: it was ingested, or has failed. It is reported once for each document. */
  ended: boolean;
  /** The reason why documents of the base wait, such as `embedding_unavailable`; empty if none waits. */
  waitingFor: string;
}

/** Documents were not ingested. */
export class DocumentFailed extends RagstoreError {
  constructor(
    /** Their outcomes. */
    readonly failures: readonly IngestedDocument[],
  ) {
    const named = failures.slice(0, MAX_NAMED).map(({ name, error }) => `${name}: ${error}`);
    super([...named, ...(failures.length > MAX_NAMED ? ["..."] : [])].join("; "));
  }
}

/** The outcomes of documents that were ingested together, in their order. */
export class DocumentsReport {
  constructor(readonly documents: readonly IngestedDocument[]) {}

  /** The outcomes of the documents that were not ingested. */
  get failures(): IngestedDocument[] {
    return this.documents.filter(({ ok }) => !ok);
  }

  /** @throws DocumentFailed if a document was not ingested. It has all failures, and names the first ones. */
  raiseForFailures(): void {
    const { failures } = this;
    if (failures.length > 0) {
      throw new DocumentFailed(failures);
    }
  }
}
