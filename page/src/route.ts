/** The address of what is shown. It is in the hash: names of collections and documents are in no access log. */
import { Signal } from "./signal";
import { raw, type Stored } from "./stored";

export interface Route {
  /** Decoded segments, such as `collections`, a name, `query`. */
  path: string[];
  query: URLSearchParams;
}

/** The current route. */
export const route = new Signal<Route>(parsed(location.hash));

addEventListener("hashchange", () => {
  route.value = parsed(location.hash);
});

function parsed(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/u, "").split(/\?(.*)/su);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** A link to a route. Values that are undefined or empty are left out. */
export function link(path: (string | Stored)[], query: Record<string, string | Stored | undefined> = {}): string {
  const segments = path.map((each) => encodeURIComponent(typeof each === "string" ? each : raw(each)));
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    const text = value === undefined || typeof value === "string" ? value : raw(value);
    if (text) given.set(name, text);
  }
  return `#/${segments.join("/")}${given.size ? `?${given}` : ""}`;
}

/** Show a route. `replace` keeps the history short while a selection moves. */
export function go(to: string, { replace = false } = {}): void {
  // Not `location.hash`: its event comes later, and a key that is pressed before it would meet the route before.
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  route.value = parsed(to);
}

/** Change some parameters of the current route. */
export function amend(changes: Record<string, string | Stored | undefined>, { replace = false } = {}): void {
  const { path, query } = route.value;
  go(link(path, { ...Object.fromEntries(query), ...changes }), { replace });
}
