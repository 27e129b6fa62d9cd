/** The names of knowledge bases, whose collections have names that mean nothing to people. */
import { signal } from "@preact/signals";
import { gateway } from "../api";
import { gatewayRole } from "../session";
import { raw, type Stored } from "../stored";

const COLLECTION = /^[a-zA-Z0-9._-]*?([0-9a-f]{32})_[0-9a-f]{8}$/u;

const names = signal<Map<string, Stored>>(new Map());

/** The name of the base that a collection is of; undefined if it is of none, or none is known. */
export function baseOf(collection: Stored): Stored | undefined {
  const id = COLLECTION.exec(raw(collection))?.[1];
  return id === undefined ? undefined : names.value.get(id);
}

/** Read the names, if the caller may see them. */
export async function readBases(): Promise<void> {
  if (gatewayRole.value === undefined) return;
  try {
    const { value } = await gateway("get", "/ragstore/rags/descriptors", { query: { limit: 1000 } });
    const found = new Map<string, Stored>();
    for (const base of value) {
      const id = /([0-9a-f-]{32,36})(?:\?|$)/u.exec(raw(base.resource))?.[1];
      if (id) found.set(id.replaceAll("-", ""), base.name);
    }
    names.value = found;
  } catch {
    // The collections are shown with their own names.
  }
}
