/** Paths, pages and responses that the calls of the gateway share. */

import { integer } from "../arguments.js";
import type { Core } from "../core.js";
import { InvalidInput } from "../errors.js";
import type { AttemptResult } from "../transport.js";
import type { paths } from "./schema.js";
import type { ConfigurationLike } from "./types.js";

/** Sends the calls of one gateway. */
export type GatewayCore = Core<paths>;

/** The id of a configuration. */
export function idOf(configuration: ConfigurationLike): string {
  const id: unknown = typeof configuration === "string" ? configuration : (configuration as { id?: unknown } | null)?.id;
  return segment("an id", id);
}

/**
 * A name as one segment of a path.
 *
 * @param noun what the name is, for the error.
 */
export function segment(noun: string, name: unknown): string {
  if (typeof name !== "string" || isDots(name) || name === "") {
    // As segments of a path, dots have another meaning for every proxy.
    throw new InvalidInput(`${noun} must be a text that can be a segment of a path`);
  }
  return name;
}

/** The path of a document: the slashes of its name separate segments. */
export const DOCUMENT_PATH = {
  pathSerializer: (path: string, params: Record<string, unknown>): string => {
    const { id, name } = params as { id: string; name: string };
    return path.replace("{id}", encodeURIComponent(id)).replace("{name}", name.split("/").map(encodeURIComponent).join("/"));
  },
};

/** The path parameters of a document. */
export function documentPath(base: ConfigurationLike, name: string): { id: string; name: string } {
  if (typeof name !== "string" || name === "" || name.split("/").some(isDots)) {
    throw new InvalidInput("the name of a document must be a text without the segments '.' and '..'");
  }
  return { id: idOf(base), name };
}

function isDots(part: string): boolean {
  return part === "." || part === "..";
}

/** The parameters of a query string, without the undefined ones. */
export function queryOf<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

/** The result of a call whose response has no body. */
export function withoutBody({ error, response }: AttemptResult<unknown>): AttemptResult<object> {
  return response.ok ? { data: {}, response } : { error, response };
}

/** The items of all pages of a list. */
export async function* itemsOf<T>(
  pageSize: number,
  read: (index: number, limit: number) => Promise<readonly T[]>,
): AsyncGenerator<T, void, undefined> {
  const limit = integer("pageSize", pageSize, 1);
  for (let index = 0; ; index += 1) {
    const items = await read(index, limit);
    yield* items;
    if (items.length < limit) {
      return;
    }
  }
}
