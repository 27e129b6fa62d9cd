/** The calls of Chroma's v2 API for reading, and the translation into its stricter filter language. No I/O. */

import { InvalidInput } from "../../errors.js";
import type { Match, Where } from "../../types.js";

/** A collection, as Chroma returns it. */
export interface ChromaCollection {
  id: string;
  name: string;
  dimension?: number | null;
  configuration_json?: { hnsw?: { space?: string } | null; spann?: { space?: string } | null };
}

type ChromaMetadata = Record<string, Match["metadata"][string] | null>;

/** The nearest records for each query vector, as columns. */
export interface ChromaQueryResult {
  ids: string[][];
  documents: (string | null)[][];
  metadatas: (ChromaMetadata | null)[][];
  distances: (number | null)[][];
  embeddings?: number[][][] | null;
}

/** Records, as columns. */
export interface ChromaRecords {
  ids: string[];
  documents: (string | null)[];
  metadatas: (ChromaMetadata | null)[];
}

/** A distance function; Chroma's default is l2. */
export function spaceOf({ configuration_json: configuration }: ChromaCollection): string {
  return (configuration?.hnsw ?? configuration?.spann)?.space ?? "l2";
}

/** The score of a distance, as the contract defines it. */
export function scoreOf(space: string, distance: number): number {
  return space === "l2" ? 1 / (1 + distance) : 1 - distance;
}

/** The matches of one query. A distance that float32 cannot represent is NaN, so that every comparison is false. */
export function matchesOf(found: ChromaQueryResult, collection: ChromaCollection): Match[] {
  const space = spaceOf(collection);
  return (found.ids[0] ?? []).map((id, index) => {
    const distance = found.distances[0]?.[index] ?? Number.NaN;
    const embedding = found.embeddings?.[0]?.[index];
    return {
      id,
      text: found.documents[0]?.[index] ?? "",
      metadata: withoutNulls(found.metadatas[0]?.[index]),
      distance,
      score: scoreOf(space, distance),
      collection: collection.name,
      ...(embedding && { embedding }),
    };
  });
}

/** Metadata without the keys that Chroma stores as null. */
export function withoutNulls(metadata: ChromaMetadata | null | undefined): Match["metadata"] {
  const entries = Object.entries(metadata ?? {}).filter(([, value]) => value !== null);
  return Object.fromEntries(entries) as Match["metadata"];
}

type ChromaWhere = Record<string, unknown>;

/**
 * Translate a filter into Chroma's stricter language.
 *
 * The contract combines several fields, and several operators on a field, by AND. It treats an empty filter as no filter,
 * and `$and` or `$or` of one clause as that clause. Chroma rejects all of these.
 *
 * @returns the filter in Chroma's language; empty for no filter.
 * @throws InvalidInput if `$and` or `$or` has no list of filters.
 */
export function toChromaWhere(where: Where | undefined): ChromaWhere {
  return combine("$and", Object.entries(where ?? {}).flatMap(([field, condition]) => clausesOf(field, condition)));
}

function clausesOf(field: string, condition: unknown): ChromaWhere[] {
  if (condition === undefined) {
    return [];
  }
  if (field === "$and" || field === "$or") {
    if (!Array.isArray(condition) || !condition.every(isObject)) {
      throw new InvalidInput(`${field} must be an array of filters`);
    }
    const clauses = condition.map((clause) => toChromaWhere(clause as Where));
    const isEmpty = (clause: ChromaWhere): boolean => Object.keys(clause).length === 0;
    if (field === "$or" && clauses.some(isEmpty)) {
      return []; // one alternative selects everything, so the disjunction does
    }
    const combined = combine(
      field,
      clauses.filter((clause) => !isEmpty(clause)),
    );
    return isEmpty(combined) ? [] : [combined];
  }
  if (isObject(condition) && Object.keys(condition).length > 1) {
    return Object.entries(condition).map(([operator, operand]: [string, unknown]) => ({ [field]: { [operator]: operand } }));
  }
  return [{ [field]: condition }];
}

function combine(operator: string, clauses: ChromaWhere[]): ChromaWhere {
  return clauses.length > 1 ? { [operator]: clauses } : (clauses[0] ?? {});
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
