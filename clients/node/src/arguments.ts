/** Validation of the arguments of a client and of its calls. */

import { InvalidConfiguration, InvalidInput } from "./errors.js";
import type { CallOptions } from "./types.js";

/** The options of every call. */
const CALL_OPTIONS: Record<keyof CallOptions, true> = {
  signal: true,
  timeoutMs: true,
  deadlineMs: true,
  retries: true,
  headers: true,
  requestId: true,
};

/** The names of options, each once: a type error reports one that is missing. */
export type Names<T> = Record<keyof Required<T>, true>;

/** The options of a call: those of every call, and its own. */
export interface ParsedOptions<T> {
  call: CallOptions;
  own: T;
}

/**
 * Separate the options of every call from those of one.
 *
 * @param method the method's name, for the error.
 * @param options the options that the caller passed.
 * @param names the names of the method's own options.
 * @throws InvalidInput if an option does not exist: from JavaScript, a misspelled one would be ignored.
 */
export function parseOptions<T extends object>(
  method: string,
  options: (T & CallOptions) | undefined,
  names: Names<T>,
): ParsedOptions<T> {
  checkOptions(method, options, { ...names, ...CALL_OPTIONS });
  const call: Record<string, unknown> = {};
  const own: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options ?? {})) {
    if (value !== undefined) {
      (name in CALL_OPTIONS && !(name in names) ? call : own)[name] = value as unknown;
    }
  }
  return { call, own: own as T };
}

/** Check the options of a call that has none of its own. */
export function parseCallOptions(method: string, options: CallOptions | undefined): CallOptions {
  return parseOptions<object>(method, options, {}).call;
}

/** @throws InvalidInput if `options` is no object, or has a name that does not exist. */
export function checkOptions(method: string, options: object | null | undefined, names: Readonly<Record<string, true>>): void {
  if (options === undefined) {
    return;
  }
  if (typeof options !== "object" || options === null) {
    throw new InvalidInput(`${method}: the options must be an object`);
  }
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(names, name)) {
      const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
      const hint = Object.hasOwn(names, camel) ? `; the option is '${camel}'` : "";
      throw new InvalidInput(`${method}: unknown option '${name}'${hint}. Options: ${Object.keys(names).join(", ")}`);
    }
  }
}

/** The path parameters of a collection. */
export function collectionPath(name: string): { collection_name: string } {
  if (typeof name !== "string") {
    throw new InvalidInput("a collection name must be a string");
  }
  if (name === "" || name === "." || name === "..") {
    throw new InvalidInput(`'${name}' is not a collection name`);
  }
  return { collection_name: name };
}

/** Strings as an array. One string has the type of a sequence of strings, but is no sequence of ids. */
export function stringArray(name: string, ids: Iterable<string>): string[] {
  const iterable = typeof (ids as Partial<Iterable<string>> | null)?.[Symbol.iterator] === "function";
  const array: unknown[] = iterable && typeof ids !== "string" ? [...ids] : [undefined];
  if (array.some((id) => typeof id !== "string")) {
    throw new InvalidInput(`${name} must be an array of strings`);
  }
  return array as string[];
}

/** An integer within bounds. */
export function integer(name: string, value: number, minimum: number): number {
  if (!Number.isInteger(value) || value < minimum) {
    throw new InvalidInput(`${name} must be an integer of at least ${minimum}`);
  }
  return value;
}

/** A time limit in milliseconds; `Infinity` for none. */
export function milliseconds(name: string, value: number | null): number {
  if (value === null) {
    return Number.POSITIVE_INFINITY;
  }
  if (typeof value !== "number" || !(value > 0)) {
    throw new InvalidConfiguration(`${name} must be a number of milliseconds greater than 0; null means no limit`);
  }
  return value;
}

/** A service's URL, and the `Authorization` header for a user and password in it. */
export interface Endpoint {
  /** The URL without user, password and trailing slash: fit for a log. */
  url: string;
  authorization?: string;
}

/** Parse a service's URL. */
export function parseEndpoint(url: string): Endpoint {
  // The messages do not repeat the URL, which may contain a password.
  if (typeof url !== "string") {
    throw new InvalidConfiguration("the service's URL must be a string");
  }
  const text = url.trim();
  const parsed = URL.canParse(text) ? new URL(text) : undefined;
  if (!parsed || !["http:", "https:"].includes(parsed.protocol)) {
    throw new InvalidConfiguration("the service's URL must begin with http:// or https:// and name a host");
  }
  if (parsed.search || parsed.hash) {
    throw new InvalidConfiguration("the service's URL must not have a query or a fragment");
  }
  const { username, password } = parsed;
  parsed.username = parsed.password = "";
  const bare = parsed.href.replace(/\/+$/, "");
  if (!username && !password) {
    return { url: bare };
  }
  const pair = new TextEncoder().encode(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
  return { url: bare, authorization: `Basic ${btoa(String.fromCharCode(...pair))}` };
}

/** The value of the `Authorization` header for a key. */
export function bearer(apiKey: string): string {
  if (typeof apiKey !== "string" || !/^[!-~]+$/.test(apiKey)) {
    throw new InvalidConfiguration("an API key must be printable ASCII without spaces");
  }
  return `Bearer ${apiKey}`;
}

/** Headers, if HTTP can express them. */
export function validatedHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  try {
    return Object.fromEntries(new Headers(headers));
  } catch {
    // The cause would repeat the value, which may be a key.
    throw new InvalidInput("a header has characters that a header cannot have");
  }
}
