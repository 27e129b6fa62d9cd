/** Types of the area, and calls that several of its screens make. */
import { gateway } from "../api";
import type { components } from "../schema/gateway";
import { mark, raw, type Marked, type Stored } from "../stored";

type Schemas = components["schemas"];

export type Configuration = Marked<Schemas["KnowledgeBase"]>;
export type Entry = Marked<Schemas["DocumentEntry"]>;
export type Chunk = Marked<Schemas["TrialChunk"]>;
export type State = "pending" | "processing" | "completed" | "failed";
export type States = Record<State, number>;

/** A version of a base. */
export interface Base {
  id: string;
  version: number;
  body: Configuration;
}

export interface Named {
  id: string;
  name: Stored;
  description: Stored;
  changed: Stored;
  /** The id of the base of a question set. */
  base: string;
}

const RESOURCE = /\/([^?/]+)\?version=(\d+)/u;

/** The id and the version in the path of a version. */
export function versionOf(resource: string): { id: string; version: number } {
  const found = RESOURCE.exec(resource);
  return { id: found?.[1] ?? "", version: Number(found?.[2] ?? 0) };
}

/** Read a version of a base; the current one without a number. */
export async function readBase(id: string, version: number | undefined, signal?: AbortSignal): Promise<Base> {
  const { value, resource } = await gateway("get", "/ragstore/rags/{id}", {
    path: { id },
    query: { version: version ?? 0 },
    ...(signal && { signal }),
  });
  return { id, version: versionOf(resource).version, body: value };
}

const PAGE = 1000;

/** All bases whose name or description has a text, newest first. */
export const listBases = (filter: string, signal?: AbortSignal): Promise<Named[]> => listNamed("rags", filter, signal);

/** All configurations of a kind whose name or description has a text, newest first. */
export async function listNamed(kind: "rags" | "assistants" | "questions", filter: string, signal?: AbortSignal): Promise<Named[]> {
  const found: Named[] = [];
  for (let index = 0; ; index += 1) {
    const { value } = await gateway("get", `/ragstore/${kind}/descriptors`, {
      query: { filter, index, limit: PAGE },
      ...(signal && { signal }),
    });
    for (const { resource, name, description, lastModifiedOn: changed, base } of value) {
      found.push({ id: versionOf(raw(resource)).id, name, description, changed, base: base === undefined ? "" : raw(base) });
    }
    if (value.length < PAGE) return found;
  }
}

/** The number of documents of a base in each state. */
export async function readStates(id: string, signal?: AbortSignal): Promise<States> {
  const options = { path: { id }, query: { limit: 1 }, ...(signal && { signal }) };
  return (await gateway("get", "/ragstore/rags/{id}/documents", options)).value.states as unknown as States;
}

/** The names of the documents whose ingestions have failed. */
export async function readFailed(id: string): Promise<Stored[]> {
  const found: Stored[] = [];
  for (let index = 0; ; index += 1) {
    const { value } = await gateway("get", "/ragstore/rags/{id}/documents", {
      path: { id },
      query: { status: "failed", index, limit: PAGE },
    });
    found.push(...value.documents.map((each) => each.name));
    if (value.documents.length < PAGE) return found;
  }
}

export const totalOf = (states: States): number => states.pending + states.processing + states.completed + states.failed;
export const unfinishedOf = (states: States): number => states.pending + states.processing;

/** A chunking; absent fields are the base's own. */
export interface Chunking {
  chunkStrategy?: string;
  chunkSize?: number;
  chunkOverlap?: number;
  chunkUnit?: string;
}

const CHUNKS = 10_000;

/** All chunks of a document. */
export async function readChunks(id: string, name: Stored, chunking: Chunking, signal: AbortSignal): Promise<Chunk[]> {
  const found: Chunk[] = [];
  for (let index = 0; ; index += 1) {
    const body = { documentName: raw(name), ...chunking, index, limit: CHUNKS };
    const { value } = await gateway("post", "/ragstore/rags/{id}/split", {
      path: { id },
      body: body as unknown as Schemas["KnowledgeBase"] as never,
      signal,
    });
    found.push(...value.chunks);
    if (found.length >= value.total || value.chunks.length === 0) return found;
  }
}

const moment = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });

/** A time of the contract, as people read it. */
export function momentOf(time: Stored): string {
  const at = Date.parse(raw(time));
  return Number.isNaN(at) ? "" : moment.format(at);
}

/** Words of the contract, such as the code of an error, as a stored string. */
export const word = (text: string): Stored => mark(text) as Stored;
