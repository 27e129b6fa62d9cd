/** The configuration that the platform passes to an agent, and the settings from the environment. */

import { InvalidConfiguration } from "../errors.js";
import { environmentVariable } from "../runtime.js";

export const DEFAULT_CHROMADB_URL = "http://chromadb:8000";
export const DEFAULT_EMBEDDINGS_URL = "http://tei-embeddings:8080";
export const DEFAULT_EMBEDDING_MODEL = "jinaai/jina-embeddings-v2-base-de";

const CHROMA_PORT = 8000;

/** The variables of an environment; those of the process where a function takes none. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** One archive: a collection of documents that a user has enabled. */
export interface RagArchiveConfig {
  /** Its display name. */
  name: string;
  /** Its collection, `repo_` and the repository's id. */
  collectionName: string;
  /**
   * URL of the ragstore service, or of the plain Chroma server, that holds it. The variable `DOCPROC_CHROMADB_URL` by
   * default, and without it `http://chromadb:8000`. `http://` without a port means port 8000.
   */
  chromadbUrl?: string | undefined;
  /** Name of the model that it was embedded with. */
  embeddingModel?: string | undefined;
}

/** The archives of an invocation, from `config.configurable.rag_config`. */
export interface RagConfig {
  archives: RagArchiveConfig[];
}

/** An archive with all defaults. */
export type Archive = { [K in keyof RagArchiveConfig]-?: string };

/** Settings for all archives. */
export interface RagSettings {
  /** URL of the embeddings endpoint (`DOCPROC_TEI_EMBEDDINGS_URL`). */
  embeddingsUrl: string;
  /** Default maximum number of results (`RAG_DEFAULT_TOP_K`). */
  defaultTopK: number;
  /** Layer that an agent's tool searches (`RAG_DEFAULT_LAYER`): `chunk` by default, `*` for all. */
  defaultLayer: string;
  /** Time limit of the search of an archive (`RAG_QUERY_TIMEOUT_SECONDS`). */
  queryTimeoutMs: number;
  /** Time limit of embedding a query (`RAG_EMBED_TIMEOUT_SECONDS`). */
  embedTimeoutMs: number;
  /** Key for ragstore services, if they require one (`RAGSTORE_API_KEY`). */
  apiKey?: string | undefined;
}

export const DEFAULT_SETTINGS: Readonly<RagSettings> = {
  embeddingsUrl: DEFAULT_EMBEDDINGS_URL,
  defaultTopK: 5,
  defaultLayer: "chunk",
  queryTimeoutMs: 5_000,
  embedTimeoutMs: 10_000,
};

/**
 * Read the settings from the environment. An empty variable counts as not set.
 *
 * @throws InvalidConfiguration if the value of a variable is invalid; the message names the variable.
 */
export function settingsFromEnv(environ?: Environment): RagSettings {
  const seconds = (name: string, fallback: number): number => number(environ, name, false, fallback / 1000) * 1000;
  return {
    embeddingsUrl: variable(environ, "DOCPROC_TEI_EMBEDDINGS_URL") ?? DEFAULT_EMBEDDINGS_URL,
    defaultTopK: number(environ, "RAG_DEFAULT_TOP_K", true, DEFAULT_SETTINGS.defaultTopK),
    defaultLayer: variable(environ, "RAG_DEFAULT_LAYER") ?? DEFAULT_SETTINGS.defaultLayer,
    queryTimeoutMs: seconds("RAG_QUERY_TIMEOUT_SECONDS", DEFAULT_SETTINGS.queryTimeoutMs),
    embedTimeoutMs: seconds("RAG_EMBED_TIMEOUT_SECONDS", DEFAULT_SETTINGS.embedTimeoutMs),
    apiKey: variable(environ, "RAGSTORE_API_KEY"),
  };
}

/** An archive with all defaults. Its URL has a port. */
export function archiveOf(config: RagArchiveConfig): Archive {
  const url = config.chromadbUrl?.trim() || (environmentVariable("DOCPROC_CHROMADB_URL") ?? DEFAULT_CHROMADB_URL);
  const [, scheme, host = "", path = ""] = /^(http:\/\/)([^/]*)(.*)$/is.exec(url) ?? [];
  return {
    name: config.name,
    collectionName: config.collectionName,
    // `https://` keeps its own default, 443.
    chromadbUrl: scheme && host && !/:\d*$/.test(host) ? `${scheme}${host}:${CHROMA_PORT}${path}` : url,
    embeddingModel: config.embeddingModel?.trim() || DEFAULT_EMBEDDING_MODEL,
  };
}

/**
 * Extract the archives of an invocation.
 *
 * @param config a LangGraph configuration; the thread's where there are two.
 * @param assistant the assistant's configuration, when the runtime has not merged the two.
 * @returns the archives; undefined if there is no `rag_config`. The thread's replaces the assistant's entirely. A thread
 *   with a `configurable` but no `rag_config` in it has no archives: the platform omits the key when a user disables all
 *   of them.
 * @throws InvalidConfiguration if the `rag_config` is invalid; the message has the path.
 */
export function extractRagConfig(config: object, assistant?: object): RagConfig | undefined {
  for (const source of [config, assistant]) {
    const configurable = (source as { configurable?: unknown } | undefined)?.configurable;
    if (isObject(configurable)) {
      const raw = configurable.rag_config;
      return raw ? parseRagConfig(raw) : undefined;
    }
  }
  return undefined;
}

const FIELDS = {
  name: "name",
  collection_name: "collectionName",
  chromadb_url: "chromadbUrl",
  embedding_model: "embeddingModel",
} as const;

function parseRagConfig(raw: unknown): RagConfig {
  const archives = isObject(raw) ? (raw.archives ?? []) : raw;
  if (!Array.isArray(archives)) {
    throw new InvalidConfiguration("rag_config: must be an object with an array: $.archives");
  }
  return { archives: archives.map((archive: unknown, index) => parseArchive(archive, `$.archives[${index}]`)) };
}

function parseArchive(raw: unknown, path: string): RagArchiveConfig {
  if (!isObject(raw)) {
    throw new InvalidConfiguration(`rag_config: must be an object: ${path}`);
  }
  const archive: Partial<RagArchiveConfig> = {};
  for (const [wire, name] of Object.entries(FIELDS)) {
    const value = raw[wire] ?? raw[name];
    // A null or blank member means "not set", so that its default applies.
    if (value !== undefined && value !== null && value !== "") {
      if (typeof value !== "string") {
        throw new InvalidConfiguration(`rag_config: must be a string: ${path}.${wire}`);
      }
      archive[name] = value;
    }
  }
  const { name, collectionName } = archive;
  if (name === undefined || collectionName === undefined) {
    throw new InvalidConfiguration(`rag_config: required: ${path}.${name === undefined ? "name" : "collection_name"}`);
  }
  return { ...archive, name, collectionName };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function variable(environ: Environment | undefined, name: string): string | undefined {
  return environ ? environ[name]?.trim() || undefined : environmentVariable(name);
}

function number(environ: Environment | undefined, name: string, whole: boolean, fallback: number): number {
  const text = variable(environ, name);
  if (text === undefined) {
    return fallback;
  }
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0 || (whole && !Number.isInteger(value))) {
    throw new InvalidConfiguration(`${name} must be a ${whole ? "whole " : ""}number greater than 0`);
  }
  return value;
}
