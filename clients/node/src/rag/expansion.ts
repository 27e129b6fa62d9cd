/** Section expansion: from a retrieved passage to its whole section or document, in reading order. */

import { InvalidInput } from "../errors.js";
import type { Document, Scalar, Where } from "../types.js";
import type { RetrievedPassage } from "./results.js";

const PARAGRAPH = "\n\n";

/** Reading order of the chunks of a section when their metadata has nothing but `doc_type`. */
const TYPES_IN_ORDER = ["title", "heading", "paragraph", "text", "list", "table", "code", "caption", "footnote"];

/** The section or document that contains a passage. */
export interface ExpandedPassage {
  /** Its chunks, in reading order. */
  documents: Document[];
  /** The chunks as one text, without repeating where they overlap. */
  text: string;
}

/**
 * The filter that selects the chunks of a passage's section.
 *
 * @returns a filter by `section_id`, or else by `section_heading`, within the passage's document and layer. The filter of
 *   its document when it names no section.
 * @throws InvalidInput if the metadata names neither a section nor a document.
 */
export function sectionFilter(passage: RetrievedPassage): Where {
  const key = ["section_id", "section_heading"].find((name) => passage.metadata[name]);
  return key === undefined ? documentFilter(passage) : equalTo(passage, [key, "document_id", "layer"]);
}

/**
 * The filter that selects the chunks of a passage's document, within its layer: the layers repeat each other's text.
 *
 * @throws InvalidInput if the metadata names no document.
 */
export function documentFilter(passage: RetrievedPassage): Where {
  if (!passage.metadata.document_id) {
    throw new InvalidInput("the passage's metadata names neither a section nor a document");
  }
  return equalTo(passage, ["document_id", "layer"]);
}

/**
 * Assemble chunks.
 *
 * @param documents the chunks, in any order.
 * @param around a passage among them. A heading may occur twice in a document ("General"); only the run of chunks that
 *   contains the passage is used then.
 */
export function assemble(documents: readonly Document[], around?: RetrievedPassage): ExpandedPassage {
  const sorted = [...documents].sort(byReadingOrder);
  const chunks = around ? runAround(sorted, around.id) : sorted;
  return { documents: chunks, text: joined(chunks) };
}

function equalTo({ metadata }: RetrievedPassage, keys: readonly string[]): Where {
  const values = keys.map((key) => [key, metadata[key]] as const);
  return Object.fromEntries(values.filter((entry): entry is [string, Scalar] => isScalar(entry[1])));
}

function isScalar(value: unknown): value is Scalar {
  return typeof value === "number" || typeof value === "boolean" || (typeof value === "string" && value !== "");
}

function byReadingOrder(one: Document, other: Document): number {
  const first = readingOrder(one);
  const second = readingOrder(other);
  const index = first.findIndex((value, position) => value !== second[position]);
  return index < 0 ? 0 : (first[index] ?? 0) - (second[index] ?? 0);
}

function readingOrder(chunk: Document): number[] {
  const type = TYPES_IN_ORDER.indexOf(String(chunk.metadata.doc_type));
  // Pages and indices may restart in each section, so offsets into the source, where there are any, come first.
  return [
    numberOf(chunk, "char_start"),
    numberOf(chunk, "page_number"),
    numberOf(chunk, "chunk_index"),
    type < 0 ? TYPES_IN_ORDER.length : type,
  ];
}

function numberOf({ metadata }: Document, key: string): number {
  const value = metadata[key];
  return typeof value === "number" ? value : 0;
}

function runAround(chunks: Document[], passageId: string): Document[] {
  const runs: Document[][] = [];
  for (const chunk of chunks) {
    const run = runs.at(-1);
    const before = run?.at(-1);
    if (run && before && isNext(before, chunk)) {
      run.push(chunk);
    } else {
      runs.push([chunk]);
    }
  }
  return runs.find((run) => run.some(({ id }) => id === passageId)) ?? chunks;
}

function isNext(before: Document, after: Document): boolean {
  const first = before.metadata.chunk_index;
  const second = after.metadata.chunk_index;
  return typeof first === "number" && typeof second === "number" ? second === first || second === first + 1 : true;
}

function joined(chunks: readonly Document[]): string {
  let text = "";
  let covered = 0;
  for (const chunk of chunks) {
    const overlap = text && "char_start" in chunk.metadata ? covered - numberOf(chunk, "char_start") : 0;
    // Offsets may count characters differently from the text, so the texts themselves must agree.
    if (overlap > 0 && overlap <= chunk.text.length && text.endsWith(chunk.text.slice(0, overlap))) {
      text += chunk.text.slice(overlap);
    } else if (overlap <= 0 || !text.includes(chunk.text)) {
      text += (text ? PARAGRAPH : "") + chunk.text;
    }
    covered = Math.max(covered, numberOf(chunk, "char_end"));
  }
  return text;
}
