/**
 * Delivery of a batch: exactly the documents that the service rejects fail, and all others are stored.
 *
 * A rejected request is sent again without the documents that the rejection names. If it names none, it is halved, until
 * the rejected documents are isolated. There is no limit to the number of requests, because each one makes the rest
 * smaller. The largest chunk is sent first: in a new collection the first chunk decides the dimension, and the documents
 * with another one are the few that were split off.
 */

import { asError, type Batch, type Entry, named } from "./batches.js";
import { documentsBody } from "./encoding.js";
import { BadRequest, Conflict, PayloadTooLarge, ProblemError } from "./errors.js";
import type { FieldError } from "./types.js";

/** The result of a delivery. */
export interface Delivery {
  /** Why a document is not known to be stored. */
  errors: Map<Entry, Error>;
  /** The error that ends the ingestion, if any. */
  failure?: { error: unknown };
  /** Number of documents that the service accepted in one request, if it rejected more and then stored all of them. */
  maxDocuments?: number;
}

/** Documents to send in one request. */
interface Chunk {
  entries: Entry[];
  /** Whether a rejection named just these documents. */
  suspected?: boolean;
}

/**
 * Deliver a batch, in several requests where necessary. Never rejects.
 *
 * @param batch the batch.
 * @param send sends the body of one request, and rejects if its documents are not stored.
 */
export async function deliver(batch: Batch, send: (body: string) => Promise<unknown>): Promise<Delivery> {
  const delivery: Delivery = { errors: new Map() };
  const sendable = batch.entries.filter((entry) => !entry.error);
  const pending: Chunk[] = sendable.length > 0 ? [{ entries: sendable }] : [];
  let namesAreTrusted = true;
  let requests = 0;
  let largest = 0;
  for (let chunk = takeLargest(pending); chunk; chunk = takeLargest(pending)) {
    const { entries, suspected } = chunk;
    requests += 1;
    try {
      await send(documentsBody(entries.map((entry) => entry.body)));
      largest = Math.max(largest, entries.length);
      // The document that was blamed is a good one: the next rejections are halved instead.
      namesAreTrusted &&= !suspected;
    } catch (error) {
      if (!isRejection(error)) {
        delivery.failure = { error };
        for (const entry of [chunk, ...pending].flatMap((rest) => rest.entries)) {
          delivery.errors.set(entry, asError(error));
        }
        break;
      }
      pending.push(...split(entries, error, namesAreTrusted, delivery.errors));
    }
  }
  if (requests > 1 && delivery.errors.size === 0) {
    delivery.maxDocuments = largest;
  }
  return delivery;
}

function takeLargest(chunks: Chunk[]): Chunk | undefined {
  const largest = chunks.reduce((best, { entries }, index) => (entries.length > (chunks[best]?.entries.length ?? 0) ? index : best), 0);
  return chunks.splice(largest, 1)[0];
}

/** Split a rejected request. The documents that are known to be rejected get their errors. */
function split(entries: readonly Entry[], error: ProblemError, trusted: boolean, errors: Map<Entry, Error>): Chunk[] {
  const tooLarge = isTooLarge(error);
  const fields = tooLarge ? new Map<number, FieldError[]>() : fieldsByIndex(error);
  const blamed = entries.filter((_, index) => fields.has(index));
  const others = entries.filter((_, index) => !fields.has(index));
  if (entries.length === 1 || blamed.length > 1) {
    // Only a service that lists all rejected documents names several.
    entries.forEach((entry, index) => {
      if (entries.length === 1 || fields.has(index)) {
        errors.set(entry, rejectionOf(entry, error, fields.get(index) ?? error.errors));
      }
    });
    return entries.length === 1 || others.length === 0 ? [] : [{ entries: others }];
  }
  const byDimension = !tooLarge && isAboutDimensions(error) ? groupedByDimension(entries) : [];
  if (byDimension.length > 1) {
    // A service before version 0.2 compares with the first document, and blames the second if the first is the bad one.
    return byDimension.map((group) => ({ entries: group }));
  }
  if (blamed.length === 1 && trusted) {
    return [{ entries: others }, { entries: blamed, suspected: true }];
  }
  const middle = Math.ceil(entries.length / 2);
  return [{ entries: entries.slice(0, middle) }, { entries: entries.slice(middle) }];
}

/** Whether the dimension of an embedding may be the reason. A service before version 0.2 sends no code. */
function isAboutDimensions({ code }: ProblemError): boolean {
  return code === undefined || code === "dimension_mismatch";
}

function groupedByDimension(entries: readonly Entry[]): Entry[][] {
  const groups = new Map<number, Entry[]>();
  for (const entry of entries) {
    const group = groups.get(entry.dimension) ?? [];
    group.push(entry);
    groups.set(entry.dimension, group);
  }
  return [...groups.values()];
}

/** Whether a request was rejected because of its documents. */
function isRejection(error: unknown): error is ProblemError {
  return error instanceof BadRequest || error instanceof Conflict || error instanceof PayloadTooLarge;
}

const TOO_LARGE_CODES: ReadonlySet<string | undefined> = new Set(["batch_too_large", "body_too_large"]);

/** Whether the number of documents or bytes was rejected, rather than certain documents. */
function isTooLarge(error: ProblemError): boolean {
  return error instanceof PayloadTooLarge || TOO_LARGE_CODES.has(error.code);
}

const DOCUMENT_PATH = /^(?:\$\.)?documents\[(\d+)\](.*)$/s;

/** The fields that a rejection names, by the index of their document in the request: 3 for `$.documents[3].embedding`. */
function fieldsByIndex({ errors }: ProblemError): Map<number, FieldError[]> {
  const fields = new Map<number, FieldError[]>();
  for (const field of errors) {
    const index = DOCUMENT_PATH.exec(field.path)?.[1];
    if (index !== undefined) {
      fields.set(Number(index), [...(fields.get(Number(index)) ?? []), field]);
    }
  }
  return fields;
}

/** The rejection of one document: with its own fields, whose paths have its index in the caller's documents. */
function rejectionOf(entry: Entry, error: ProblemError, fields: readonly FieldError[]): Error {
  const own = fields.map((field) => ({
    ...field,
    path: field.path.replace(DOCUMENT_PATH, (_, __, rest: string) => `$.documents[${entry.index}]${rest}`),
  }));
  const [first] = own;
  const reason = first ? `${first.message}: ${first.path}` : error.detail || error.title;
  const { status, code, type, title, requestId, retryAfterMs } = error;
  const ErrorClass = error.constructor as typeof ProblemError;
  const detail = `document ${entry.index}${named(entry.id)}: ${reason}`;
  const rejection = new ErrorClass({ status, code, type, title, detail, errors: own, requestId, retryAfterMs });
  return Object.assign(rejection, { method: error.method, url: error.url });
}
