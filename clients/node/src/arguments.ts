/** Validation of the arguments of a client. */

import { InvalidInput } from "./errors.js";

/** The path parameters of a collection. */
export function collectionPath(name: string): { collection_name: string } {
  if (name === "" || name === "." || name === "..") {
    throw new InvalidInput(`'${name}' is not a collection name`);
  }
  return { collection_name: name };
}

/** The service's URL without a trailing slash. */
export function validatedUrl(url: string): string {
  // The message does not repeat the URL, which may contain a password.
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !["http:", "https:"].includes(parsed.protocol)) {
    throw new InvalidInput("the service's URL must begin with http:// or https://");
  }
  if (parsed.username || parsed.password || parsed.search || parsed.hash) {
    throw new InvalidInput("the service's URL must not have a user, a query or a fragment");
  }
  return parsed.href.replace(/\/+$/, "");
}

/** The headers, if HTTP can express them. */
export function validatedHeaders(headers: Record<string, string>): Record<string, string> {
  try {
    new Headers(headers);
  } catch {
    // The cause would repeat the value, which may be the key.
    throw new InvalidInput("a header or the key has characters that a header cannot have");
  }
  return headers;
}
