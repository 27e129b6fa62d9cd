/** The results of a search over archives: passages, and the archives that were skipped. */

import type { Match } from "../types.js";
import type { Archive } from "./config.js";

/** A passage that a search has found. */
export interface RetrievedPassage {
  /** The archive that contains it. */
  archive: Archive;
  /** Its id in the archive's collection. */
  id: string;
  text: string;
  metadata: Match["metadata"];
  /** Its distance from the query. */
  distance: number;
  /** Its similarity to the query; for cosine, 1 is the same direction. */
  score: number;
  /** Its vector, when requested. */
  embedding?: readonly number[] | undefined;
}

/** Why an archive was skipped. */
export type SkipReason =
  | "unreachable"
  | "too slow"
  | "collection not found"
  | "other embedding dimension"
  | "key not accepted"
  | "query not embedded"
  | "misconfigured"
  | "search failed";

/** An archive that was skipped. */
export interface SkippedArchive {
  archive: Archive;
  reason: SkipReason;
}

/** The results of a search. */
export interface SearchResults {
  /** The passages, nearest first. */
  passages: RetrievedPassage[];
  /** The archives that were skipped. */
  skipped: SkippedArchive[];
  /** Number of archives that were searched. */
  searched: number;
}

/**
 * Rank the passages of all archives together.
 *
 * @returns the nearest passages without duplicates: no text occurs twice. A span may, since offsets may restart on each page of
 * a document; passages without text are compared by their spans.
 */
export function rank(passages: Iterable<RetrievedPassage>, topK: number): RetrievedPassage[] {
  const seen = new Set<string>();
  const unique: RetrievedPassage[] = [];
  for (const passage of [...passages].sort(byDistance)) {
    const text = passage.text.trim().split(/\s+/).join(" ");
    const identity = text ? `text ${text}` : spanOf(passage.metadata);
    if (identity === "" || !seen.has(identity)) {
      unique.push(passage);
    }
    seen.add(identity);
  }
  return unique.slice(0, topK);
}

/** A distance that float32 cannot represent is NaN: such a passage comes last. */
function byDistance(one: RetrievedPassage, other: RetrievedPassage): number {
  const [first, second] = [one, other].map(({ distance }) => (Number.isNaN(distance) ? Number.MAX_VALUE : distance));
  return (first ?? 0) - (second ?? 0);
}

/** A passage's document and its range of characters; empty when the metadata has no such values. */
function spanOf({ document_id: document, char_start: start, char_end: end }: Match["metadata"]): string {
  return typeof document === "string" && Number.isInteger(start) && Number.isInteger(end)
    ? `span ${String(start)} ${String(end)} ${document}`
    : "";
}
