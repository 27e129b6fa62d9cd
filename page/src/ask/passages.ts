/** The passages of a reply, and what it cites: as the gateway returns them, never by another search. */
import type { components } from "../schema/gateway";
import { mark, raw, type Marked, type Stored } from "../stored";
import { say } from "./words";

/** A passage, as the prompt has it. */
export interface Passage {
  /** Its number, which the reply cites. Passages of one document share it. */
  number: number;
  id: string;
  title: Stored;
  base: Stored;
  baseId: string;
  /** The name of its document; undefined for a record of others, and for the response of an HTTP call. */
  document: Stored | undefined;
  /** Its place in the text of its document, in code points. */
  span: { start: number; end: number } | undefined;
  score: number | undefined;
  /** Undefined for the response of an HTTP call. */
  text: Stored | undefined;
  url: string;
}

/** A citation: a part of the reply, in code points, and the passages that it cites. */
export interface Citation {
  start: number;
  end: number;
  passages: Passage[];
}

interface Shown {
  number: number;
  title: string;
  base: string;
  base_id?: string;
  url?: string;
  id?: string;
  document_name?: string;
  start?: number;
  end?: number;
  score?: number;
  text?: string;
}

interface Annotation {
  url_citation?: { start_index: number; end_index: number; passage_id: string; title: string };
}

/** The passages in the end of a chat. */
export function passagesOf(given: Shown[]): Passage[] {
  return given.map((each) => ({
    number: each.number,
    id: each.id ?? "",
    title: mark(each.title),
    base: mark(each.base),
    baseId: each.base_id ?? "",
    document: each.document_name ? mark(each.document_name) : undefined,
    span: spanOf(each.start, each.end),
    score: each.score,
    text: each.text === undefined ? undefined : mark(each.text),
    url: each.url ?? "",
  }));
}

type Hit = Marked<components["schemas"]["KnowledgeBaseHit"]>;

/** The passages of a search, numbered in their order. */
export function hitsOf(hits: Hit[], base: { id: string; name: Stored }): Passage[] {
  return hits.map((hit, index) => {
    const metadata = hit.metadata as Record<string, unknown>;
    const [name, page, start, end] = ["document_name", "page_number", "char_start", "char_end"].map((key) => metadata[key]);
    const title = metadata["title"] ?? name ?? metadata["source"] ?? raw(hit.id);
    return {
      number: index + 1,
      id: raw(hit.id),
      title: mark(typeof page === "number" ? `${String(title)}, ${say.page(page)}` : String(title)),
      base: base.name,
      baseId: base.id,
      document: typeof name === "string" && name ? mark(name) : undefined,
      span: spanOf(start, end),
      score: hit.score,
      text: hit.text,
      url: typeof metadata["url"] === "string" ? metadata["url"] : "",
    };
  });
}

const spanOf = (start: unknown, end: unknown) => (typeof start === "number" && typeof end === "number" ? { start, end } : undefined);

/** The citations of a reply, in its order. A citation of a document cites each of its passages. */
export function citationsOf(annotations: Annotation[], passages: Passage[]): Citation[] {
  const found = new Map<number, Citation>();
  for (const { url_citation: each } of annotations) {
    if (!each) continue;
    const own = passages.filter((passage) => passage.id === each.passage_id);
    const cited = own.find((passage) => raw(passage.title) === each.title) ?? own[0];
    if (!cited) continue;
    const citation = found.get(each.start_index) ?? { start: each.start_index, end: each.end_index, passages: [] };
    if (!citation.passages.includes(cited)) citation.passages.push(cited);
    found.set(each.start_index, citation);
  }
  return [...found.values()].sort((a, b) => a.start - b.start);
}

/** The passages of the same document, in the order of its text. */
export function besides(passage: Passage, passages: Passage[]): Passage[] {
  if (passage.document === undefined) return [passage];
  const name = raw(passage.document);
  return passages
    .filter((each) => each.baseId === passage.baseId && each.document !== undefined && raw(each.document) === name)
    .sort((a, b) => (a.span?.start ?? 0) - (b.span?.start ?? 0));
}

const OWN = /\/ragstore\/rags\/[^/]+\/passages\/[^/]+$/u;

/** The web address of a passage; undefined if it has none but the gateway's. */
export function webAddress({ url }: Passage): URL | undefined {
  if (!/^https?:\/\//iu.test(url) || OWN.test(url)) return undefined;
  try {
    const parsed = new URL(url);
    return parsed.username || parsed.password ? undefined : parsed;
  } catch {
    return undefined;
  }
}
