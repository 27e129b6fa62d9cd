/** Formats results for people and models. */

import { InvalidConfiguration } from "../errors.js";
import type { RetrievedPassage, SearchResults, SkipReason } from "./results.js";

const SEPARATOR = "\n\n---\n\n";

/** The texts of one language. */
export interface Texts {
  /** Label of an archive's name. */
  archive: string;
  /** Label of a layer. */
  layer: string;
  /** Label of a page number. */
  page: string;
  /** Label of a section heading. */
  section: string;
  /** The search found nothing. */
  nothingFound: string;
  /** Heading of results that are added to the conversation as context. */
  contextHeading: string;
  /** The search found nothing, and did not reach all archives. */
  nothingFoundSoFar: string;
  /** No archive could be reached. */
  noArchives: string;
  /** The query could not be embedded. */
  searchFailed: string;
  /** A tool call has no query. */
  queryMissing: string;
  /** Introduces the archives that were not searched. */
  notSearched: string;
  /** Why an archive was not searched, in a word or two. */
  reasons: Readonly<Record<SkipReason, string>>;
}

/** The texts by language. Add others to it. */
export const TEXTS: Record<string, Texts> = {
  de: {
    archive: "Archiv",
    layer: "Ebene",
    page: "Seite",
    section: "Abschnitt",
    nothingFound: "Keine relevanten Dokumente gefunden.",
    contextHeading: "Relevante Dokumente aus den Archiven:",
    nothingFoundSoFar: "Keine relevanten Dokumente in den Archiven gefunden, die durchsucht werden konnten.",
    noArchives: "Keine Archive verfügbar.",
    searchFailed: "Archivsuche fehlgeschlagen",
    queryMissing: "Das Argument query fehlt. Rufe das Tool mit dem auf, wonach gesucht werden soll.",
    notSearched: "Nicht durchsucht",
    reasons: {
      unreachable: "nicht erreichbar",
      "too slow": "zu langsam",
      "collection not found": "nicht vorhanden",
      "other embedding dimension": "anderes Embedding-Modell",
      "key not accepted": "Zugriff verweigert",
      "query not embedded": "Anfrage nicht eingebettet",
      misconfigured: "falsch konfiguriert",
      "search failed": "Suche fehlgeschlagen",
    },
  },
  en: {
    archive: "Archive",
    layer: "Layer",
    page: "Page",
    section: "Section",
    nothingFound: "No relevant documents found.",
    contextHeading: "Relevant documents from the archives:",
    nothingFoundSoFar: "No relevant documents found in the archives that could be searched.",
    noArchives: "No archives available.",
    searchFailed: "Archive search failed",
    queryMissing: "The argument query is missing. Call the tool again with what to search for.",
    notSearched: "Not searched",
    reasons: {
      unreachable: "unreachable",
      "too slow": "too slow",
      "collection not found": "does not exist",
      "other embedding dimension": "other embedding model",
      "key not accepted": "access refused",
      "query not embedded": "query not embedded",
      misconfigured: "misconfigured",
      "search failed": "search failed",
    },
  },
};

/**
 * Format results for a model.
 *
 * @param passages the results, best first.
 * @param language language of the labels: `de` by default.
 * @returns each result under a line with its number and source; the text for "nothing found" without results.
 * @throws InvalidConfiguration if there are no texts for the language.
 */
export function formatPassages(passages: readonly RetrievedPassage[], language = "de"): string {
  const labels = textsOf(language);
  const blocks = passages.map((passage, index) => block(index + 1, passage, labels));
  return blocks.join(SEPARATOR) || labels.nothingFound;
}

/**
 * Format the results of a search for a model, with the archives that could not be searched, and why.
 *
 * @param language language of the labels: `de` by default.
 * @throws InvalidConfiguration if there are no texts for the language.
 */
export function formatResults({ passages, searched, skipped }: SearchResults, language = "de"): string {
  const labels = textsOf(language);
  let found = labels.nothingFound;
  if (passages.length > 0) {
    found = formatPassages(passages, language);
  } else if (searched === 0) {
    found = labels.noArchives;
  } else if (skipped.length > 0) {
    found = labels.nothingFoundSoFar;
  }
  const named = skipped.map(({ archive, reason }) => `${archive.name} (${labels.reasons[reason]})`);
  return named.length > 0 ? `${found}\n\n${labels.notSearched}: ${named.join(", ")}.` : found;
}

/** Format results that are added to the conversation as context: under a heading. */
export function formatContext(passages: readonly RetrievedPassage[], language = "de"): string {
  return `${textsOf(language).contextHeading}\n\n${formatPassages(passages, language)}`;
}

/**
 * The texts of a language.
 *
 * @throws InvalidConfiguration if there are none.
 */
export function textsOf(language: string): Texts {
  const texts = TEXTS[language];
  if (!texts) {
    throw new InvalidConfiguration(`no texts for language '${language}'; available: ${Object.keys(TEXTS).join(", ")}`);
  }
  return texts;
}

function block(number: number, { archive, metadata, text }: RetrievedPassage, labels: Texts): string {
  const facts = [
    [labels.layer, metadata.layer],
    [labels.page, metadata.page_number],
    [labels.section, metadata.section_heading],
  ].flatMap(([label, value]) => (value ? [`${String(label)}: ${String(value)}`] : []));
  const source = facts.length > 0 ? ` (${facts.join(", ")})` : "";
  return `[${number}] ${labels.archive}: ${archive.name}${source}\n${text}`;
}
