/** The search tool of an agent, for LangChain.js and LangGraph.js. */

import { DynamicStructuredTool, type StructuredToolInterface } from "@langchain/core/tools";

import { RagstoreError } from "./errors.js";
import { formatResults, textsOf } from "./rag/formatting.js";
import type { RetrievedPassage, SearchResults, SkipReason } from "./rag/results.js";
import type { Retriever } from "./rag/retriever.js";

const MAX_TOP_K = 20;

const DESCRIPTION =
  "Searches the user's document archives. Use it whenever a question may be about documents, policies, " +
  "reports, maintenance records or anything else that may have been archived.";

/** How the tool searches. */
export interface ArchiveToolOptions {
  /** Language of the texts that the tool returns: `de` by default. */
  language?: string | undefined;
  /** Layer of the documents, `*` for all; the retriever's `defaultLayer` by default. */
  layer?: string | undefined;
  /** Number of passages if the model gives none; the retriever's `defaultTopK` by default. */
  defaultTopK?: number | undefined;
}

/** The findings of a call of the tool, for the program: the `artifact` of its message. */
export interface SearchArtifact {
  /** The passages, nearest first. */
  hits: ArchiveHit[];
  /** The archives that could not be searched, and why. */
  notSearched: { archive: string; collection: string; reason: SkipReason }[];
}

/** A passage that the tool has found. */
export interface ArchiveHit {
  /** Its number in the text for the model, such as `[1]`. */
  citation: string;
  /** The archive's display name. */
  archive: string;
  /** The archive's collection. */
  collection: string;
  /** Its id in the collection. */
  id: string;
  text: string;
  metadata: RetrievedPassage["metadata"];
  score: number;
  distance: number;
}

/** Arguments as the tool's function gets them. */
interface SearchArguments {
  query: string;
  top_k: number;
}

/**
 * Make the tool `search_archives` over the archives of an invocation.
 *
 * It returns text, and a `SearchArtifact` as artifact. It never throws because of a model's arguments or of a failed search:
 * wrong arguments are corrected, or the text says what is wrong.
 *
 * @throws InvalidConfiguration if there are no texts in the language.
 */
export function createArchiveSearchTool(retriever: Retriever, options: ArchiveToolOptions = {}): StructuredToolInterface {
  const { defaultLayer, defaultTopK: configured } = retriever.settings;
  const { language = "de", layer = defaultLayer, defaultTopK = Math.min(configured, MAX_TOP_K) } = options;
  const labels = textsOf(language);
  const nothing: SearchArtifact = { hits: [], notSearched: [] };
  const tool = new DynamicStructuredTool({
    name: "search_archives",
    description: DESCRIPTION,
    responseFormat: "content_and_artifact",
    schema: {
      type: "object" as const,
      properties: {
        query: { type: "string", description: "The query, phrased for a semantic search." },
        top_k: {
          type: "integer",
          minimum: 1,
          maximum: MAX_TOP_K,
          default: defaultTopK,
          description: "Maximum number of passages to return.",
        },
      },
      required: ["query"],
    },
    func: async (given, _manager, config): Promise<[string, SearchArtifact]> => {
      const { query, top_k: topK } = given as SearchArguments;
      if (query.trim() === "") {
        return [labels.queryMissing, nothing];
      }
      try {
        const found = await retriever.search(query, { topK, layer, signal: config?.signal });
        return [formatResults(found, language), artifact(found)];
      } catch (error) {
        if (error instanceof RagstoreError) {
          return [labels.searchFailed, nothing];
        }
        throw error;
      }
    },
  });
  // Before LangChain validates them, which throws.
  const invoke = tool.invoke.bind(tool);
  tool.invoke = async (input, config) => await invoke(withCorrectArguments(input, defaultTopK) as typeof input, config);
  return tool;
}

/** Arguments as models send them: a number may be a text, and anything else is ignored. */
function withCorrectArguments(input: unknown, defaultTopK: number): unknown {
  if (isObject(input) && input.type === "tool_call") {
    return { ...input, args: searchArguments(input.args, defaultTopK) };
  }
  return searchArguments(input, defaultTopK);
}

function searchArguments(given: unknown, defaultTopK: number): SearchArguments {
  const { query, top_k: topK } = isObject(given) ? given : { query: given, top_k: undefined };
  const number = typeof topK === "string" && topK.trim() === "" ? Number.NaN : Number(topK ?? Number.NaN);
  return {
    query: toText(query),
    top_k: Number.isFinite(number) ? Math.min(Math.max(Math.trunc(number), 1), MAX_TOP_K) : defaultTopK,
  };
}

function toText(value: unknown): string {
  if (Array.isArray(value)) {
    return value.map(toText).join(" ");
  }
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : "";
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function artifact({ passages, skipped }: SearchResults): SearchArtifact {
  return {
    hits: passages.map(({ archive, id, text, metadata, score, distance }, index) => ({
      citation: `[${index + 1}]`,
      archive: archive.name,
      collection: archive.collectionName,
      id,
      text,
      metadata,
      score,
      distance,
    })),
    notSearched: skipped.map(({ archive, reason }) => ({ archive: archive.name, collection: archive.collectionName, reason })),
  };
}
