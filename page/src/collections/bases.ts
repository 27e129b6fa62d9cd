/** The names of knowledge bases, whose collections have names that mean nothing to people. */
import { listBases } from "../bases/calls";
import { gatewayRole } from "../session";
import { Signal } from "../signal";
import { raw, type Stored } from "../stored";

const COLLECTION = /^[a-zA-Z0-9._-]*?([0-9a-f]{32})_[0-9a-f]{8}$/u;

const names = new Signal<Map<string, Stored>>(new Map());

/** The name of the base that a collection is of; undefined if it is of none, or none is known. */
export function baseOf(collection: Stored): Stored | undefined {
  const id = COLLECTION.exec(raw(collection))?.[1];
  return id === undefined ? undefined : names.value.get(id);
}

/** Read the names, if the caller may see them. */
export async function readBases(): Promise<void> {
  if (gatewayRole.value === undefined) return;
  try {
    names.value = new Map((await listBases("")).map(({ id, name }) => [id.replaceAll("-", ""), name]));
  } catch {
    // The collections are shown with their own names.
  }
}
