/** Formats results for people and models. */

import { InvalidConfiguration } from "../errors.js";
import type { RetrievedPassage } from "./results.js";

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
  },
  en: {
    archive: "Archive",
    layer: "Layer",
    page: "Page",
    section: "Section",
    nothingFound: "No relevant documents found.",
    contextHeading: "Relevant documents from the archives:",
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

/** Format results that are added to the conversation as context: under a heading. */
export function formatContext(passages: readonly RetrievedPassage[], language = "de"): string {
  return `${textsOf(language).contextHeading}\n\n${formatPassages(passages, language)}`;
}

function textsOf(language: string): Texts {
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
