/**
 * The search tool of an agent over a knowledge base, for the AI SDK (`ai`, version 6).
 *
 * Its schema is a Standard Schema with a JSON Schema, which the AI SDK accepts, so that no package of the SDK is needed.
 */

import type { GatewayClient } from "./gateway/client.js";
import type { ConfigurationLike, KnowledgeBaseHit, SearchOptions } from "./gateway/types.js";

/** How the tool searches. */
export interface SearchToolOptions extends Pick<SearchOptions, "maxResults" | "minScore" | "where"> {
  /** The description for the model; by default it has the name and the description of the base, as far as they are known. */
  description?: string | undefined;
}

/** The arguments of the tool, as the model sends them. */
export interface SearchInput {
  query: string;
}

/** A passage that the tool has found. */
export interface FoundPassage {
  id: string;
  /** Its document, with the page and the heading if they are known. */
  source: string;
  /** The URL of its document, if it has one. */
  url?: string;
  /** 0 to 1; 0.5 is unrelated. */
  relevance: number;
  text: string;
}

/** The findings of a call of the tool, the best passage first. */
export interface Findings {
  passages: FoundPassage[];
}

/** The schema of the arguments: a Standard Schema, version 1, with its JSON Schema. */
interface InputSchema {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: SearchInput; readonly output: SearchInput };
    readonly validate: (value: unknown) => { readonly value: SearchInput } | { readonly issues: readonly { readonly message: string }[] };
    readonly jsonSchema: { readonly input: () => Record<string, unknown>; readonly output: () => Record<string, unknown> };
  };
}

/** A tool of the AI SDK. */
export interface SearchTool {
  description: string;
  inputSchema: InputSchema;
  execute: (input: SearchInput, options?: { abortSignal?: AbortSignal | undefined }) => Promise<Findings>;
}

const jsonSchema = (): Record<string, unknown> => ({
  type: "object",
  properties: { query: { type: "string", minLength: 1, description: "The query, phrased for a semantic search." } },
  required: ["query"],
  additionalProperties: false,
});

const INPUT_SCHEMA: InputSchema = {
  "~standard": {
    version: 1,
    vendor: "ragstore",
    validate: (value) => {
      const query = (value as Partial<SearchInput> | null)?.query;
      return typeof query === "string" && query.trim() !== "" ? { value: { query } } : { issues: [{ message: "query must be a text" }] };
    },
    jsonSchema: { input: jsonSchema, output: jsonSchema },
  },
};

/**
 * Make a search tool over a knowledge base.
 *
 * `execute` rejects with the client's errors, which the AI SDK passes to the model as the result of the call. The search
 * ends when the SDK aborts the call.
 *
 * @param client searches the base.
 * @param base its id, or what `bases.find` returned.
 */
export function createSearchTool(client: GatewayClient, base: ConfigurationLike, options: SearchToolOptions = {}): SearchTool {
  const { description = descriptionOf(base), ...search } = options;
  return {
    description,
    inputSchema: INPUT_SCHEMA,
    execute: async ({ query }, { abortSignal } = {}) => {
      const hits = await client.search(base, query, { ...search, signal: abortSignal });
      return { passages: hits.map(passageOf) };
    },
  };
}

function passageOf({ id, source, score, text, metadata: { url } }: KnowledgeBaseHit): FoundPassage {
  return { id, source, ...(typeof url === "string" && { url }), relevance: score, text };
}

function descriptionOf(base: ConfigurationLike): string {
  const known = (typeof base === "string" ? {} : base) as Named & { configuration?: Named };
  const { name, description } = known.configuration ?? known;
  const named = [name, description].filter((each) => each).join(": ");
  return `Searches a knowledge base${named && ` (${named})`}. Returns passages with their documents, which a reply can cite.`;
}

interface Named {
  name?: string;
  description?: string;
}
