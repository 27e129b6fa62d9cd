/** The calls that ingest documents. */

import { integer, type Names, parseOptions } from "../arguments.js";
import { InvalidInput } from "../errors.js";
import { lasting, parseRetries } from "../retry.js";
import { isIterable } from "../source.js";
import type { CallOptions } from "../types.js";
import { type ContentOptions, folderDocuments, type NewContent } from "./contents.js";
import { idOf } from "./core.js";
import { DocumentCalls } from "./document_calls.js";
import { type Contents, DocumentIngestion } from "./ingestion.js";
import { type DocumentProgress, DocumentsReport, type IngestedDocument } from "./reports.js";
import type { ConfigurationLike } from "./types.js";

/** How documents are ingested. */
export interface IngestOptions {
  /** Maximum number of requests whose documents are in flight: 4 by default. */
  concurrency?: number | undefined;
  /** Called with each step. */
  onProgress?: ((progress: DocumentProgress) => void) | undefined;
  /** Time for which a request is retried while the gateway is away: 60,000 by default. */
  retryMs?: number | undefined;
  /** Time for which documents wait for room in the gateway's queue: 1,800,000 by default. */
  busyMs?: number | undefined;
}

/** How a folder is ingested. */
export interface FolderOptions extends IngestOptions {
  /** Whether to descend into the folders of the folder: true by default. */
  recursive?: boolean | undefined;
}

const INGEST: Names<IngestOptions> = { concurrency: true, onProgress: true, retryMs: true, busyMs: true };

/** The calls of a client that ingest texts, files, folders and pages, and wait until searches find them. */
export class IngestCalls extends DocumentCalls {
  /**
   * Ingest any number of documents, and yield the outcome of each, in order.
   *
   * A document that fails does not end the others. The ingestion advances only while it is iterated. Small documents are
   * sent together. A document of the same name is replaced; one with the same content is not embedded again, so that the
   * same call continues an interrupted one. The gateway ingests what it has accepted, also if this program ends.
   */
  ingest(
    base: ConfigurationLike,
    documents: Contents,
    options?: IngestOptions & CallOptions,
  ): AsyncGenerator<IngestedDocument, void, undefined> {
    const { call, own } = parseOptions<IngestOptions>("ingest", options, INGEST);
    const { concurrency = 4, onProgress, retryMs = 60_000, busyMs = 1_800_000 } = own;
    if (!isIterable(documents)) {
      throw new InvalidInput("the documents must be an array, or another iterable or asynchronous iterable, of documents");
    }
    const retries = lasting({ ...this.core.retries, ...parseRetries(call.retries) }, retryMs);
    const settings = { concurrency: integer("concurrency", concurrency, 1), busyMs, onProgress, call: { ...call, retries } };
    return new DocumentIngestion(this.core, idOf(base), settings).run(documents);
  }

  /** Ingest documents, all of them, as `ingest` does. */
  async ingestAll(base: ConfigurationLike, documents: Contents, options?: IngestOptions & CallOptions): Promise<DocumentsReport> {
    const outcomes: IngestedDocument[] = [];
    for await (const outcome of this.ingest(base, documents, options)) {
      outcomes.push(outcome);
    }
    return new DocumentsReport(outcomes);
  }

  /** Ingest the documents of a folder, in Node, Bun and Deno. Each is named by its path in the folder. */
  async ingestFolder(base: ConfigurationLike, folder: string, options?: FolderOptions & CallOptions): Promise<DocumentsReport> {
    const names: Names<FolderOptions> = { ...INGEST, recursive: true };
    const { call, own } = parseOptions<FolderOptions>("ingestFolder", options, names);
    const { recursive, ...ingest } = own;
    return await this.ingestAll(base, folderDocuments(folder, { recursive }), { ...call, ...ingest });
  }

  /**
   * Ingest a file.
   *
   * @param file its path, in Node, Bun and Deno; or its content, such as the `File` of a form.
   * @throws DocumentFailed if it was not ingested.
   */
  async ingestFile(
    base: ConfigurationLike,
    file: string | Blob | Uint8Array,
    options?: ContentOptions & CallOptions,
  ): Promise<IngestedDocument> {
    const names = { name: true, mediaType: true, metadata: true } as const;
    const { call, own } = parseOptions<ContentOptions>("ingestFile", options, names);
    const content = typeof file === "string" ? { path: file } : { content: file };
    return await this.#ingestOne(base, { ...own, ...content }, call);
  }

  /**
   * Ingest a text.
   *
   * @param name name of the document. A document of this name is replaced.
   * @throws DocumentFailed if it was not ingested.
   */
  async ingestText(
    base: ConfigurationLike,
    name: string,
    text: string,
    options?: Omit<ContentOptions, "name"> & CallOptions,
  ): Promise<IngestedDocument> {
    const names = { mediaType: true, metadata: true } as const;
    const { call, own } = parseOptions<Omit<ContentOptions, "name">>("ingestText", options, names);
    return await this.#ingestOne(base, { ...own, name, text }, call);
  }

  /**
   * Ingest a page of the web, which the gateway reads.
   *
   * @throws DocumentFailed if it was not ingested, or if the page cannot be read.
   */
  async ingestPage(
    base: ConfigurationLike,
    url: string,
    options?: Omit<ContentOptions, "mediaType"> & CallOptions,
  ): Promise<IngestedDocument> {
    const names = { name: true, metadata: true } as const;
    const { call, own } = parseOptions<Omit<ContentOptions, "mediaType">>("ingestPage", options, names);
    return await this.#ingestOne(base, { ...own, url }, call);
  }

  async #ingestOne(base: ConfigurationLike, document: NewContent, call: CallOptions): Promise<IngestedDocument> {
    const report = await this.ingestAll(base, [document], call);
    report.raiseForFailures();
    const [outcome] = report.documents;
    if (!outcome) {
      throw new InvalidInput("there is no document");
    }
    return outcome;
  }
}
