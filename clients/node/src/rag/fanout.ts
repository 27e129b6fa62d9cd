/**
 * One search over several collections, in which a slow collection does not delay the others.
 *
 * The collections of a service are searched in one joint call. If that call is still in flight after half of the time,
 * one of them must be slow, so each is searched alone as well: the slow one then costs only its own results.
 */

import { CallTimeout, describe, ProblemError, TransportError } from "../errors.js";
import { sleep } from "../runtime.js";
import type { CollectionMatches, SearchError } from "./providers.js";

/** Searches collections in one call. */
export type SearchCollections = (collections: string[], signal: AbortSignal) => Promise<CollectionMatches>;

const TIMEOUT = Symbol("timeout");

/**
 * Search several collections within a time limit.
 *
 * @param collections names of the collections, each once.
 * @throws RagstoreError if the joint call failed, or the search of a single collection did.
 */
export async function searchJointly(
  collections: string[],
  search: SearchCollections,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<CollectionMatches> {
  return await withAbort(signal, async (abort) => {
    const joint = search(collections, abort);
    const single = collections.length === 1;
    const limit = single ? timeoutMs : timeoutMs / 2;
    const first = await Promise.race([joint, timeout(limit, abort)]);
    if (first !== TIMEOUT) {
      return first;
    }
    if (single) {
      throw new CallTimeout(`no response within ${timeoutMs} ms`);
    }
    const each = searchEach(collections, search, limit, abort);
    // The joint call may fail in the meantime; the others decide then.
    return await Promise.race([joint.catch(() => each), each]);
  });
}

/** Search collections one per call, concurrently. */
export async function searchEach(
  collections: Iterable<string>,
  search: SearchCollections,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<CollectionMatches> {
  return await withAbort(signal, async (abort) => {
    const searches = Array.from(collections, async (name): Promise<CollectionMatches> => {
      try {
        const found = await Promise.race([search([name], abort), timeout(timeoutMs, abort)]);
        return found === TIMEOUT ? failed({ collection: name, status: 504, detail: "no response in time" }) : found;
      } catch (error) {
        signal?.throwIfAborted();
        return failed(searchError(name, error));
      }
    });
    return merged(await Promise.all(searches));
  });
}

/** The results of several searches as one. */
export function merged(found: readonly CollectionMatches[]): CollectionMatches {
  return { results: found.flatMap(({ results }) => results), errors: found.flatMap(({ errors }) => errors) };
}

/** The error of a collection, from the error of its search: with the matching status and the code, if there is one. */
export function searchError(collection: string, error: unknown): SearchError {
  if (error instanceof ProblemError) {
    return { collection, status: error.status, code: error.code, detail: error.detail };
  }
  const status = error instanceof CallTimeout ? 504 : error instanceof TransportError ? 503 : 502;
  return { collection, status, detail: describe(error) };
}

function failed(error: SearchError): CollectionMatches {
  return { results: [], errors: [error] };
}

async function timeout(milliseconds: number, signal: AbortSignal): Promise<typeof TIMEOUT> {
  await sleep(milliseconds, signal);
  return TIMEOUT;
}

/** Run a function with a signal that aborts when the function has ended, or when the caller's signal does. */
async function withAbort<T>(signal: AbortSignal | undefined, run: (abort: AbortSignal) => Promise<T>): Promise<T> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const abort = (): void => {
    controller.abort(signal?.reason);
  };
  signal?.addEventListener("abort", abort);
  try {
    const result = await run(controller.signal);
    signal?.throwIfAborted();
    return result;
  } finally {
    signal?.removeEventListener("abort", abort);
    controller.abort();
  }
}
