/** The caller: its key, and what it may do. The key is in memory and in the tab's session, nowhere else. */
import { gateway, useKey, whenUnauthorized } from "./api";
import { asFailure, type Failure } from "./failure";
import type { components as Gateway } from "./schema/gateway";
import type { components as Store } from "./schema/store";
import { computed, Signal } from "./signal";
import { raw, type Marked } from "./stored";
import { words } from "./common_words";

const KEPT = "ragstore-key";

export type Role = "reader" | "writer" | "admin";
export type Access = Marked<Gateway["schemas"]["Access"]> | Marked<Store["schemas"]["Access"]>;

export type Session =
  | { state: "starting" }
  | { state: "failed"; failure: Failure; at: number }
  | { state: "signed-out"; reason: string }
  | { state: "ready"; access: Access };

export const session = new Signal<Session>({ state: "starting" });

/** The service, its limits, and the rights of the key; undefined until they are known. */
export const access = computed((): Access | undefined =>
  session.value.state === "ready" ? session.value.access : undefined,
);

/** The role in the gateway; undefined without rights, or if the service is a store. */
export const gatewayRole = computed((): Role | undefined => {
  const found = access.value;
  if (!found || found.service !== "ragstore-gateway") return undefined;
  if (!found.keysRequired) return "admin";
  return (found as Marked<Gateway["schemas"]["Access"]>).key?.gateway?.role;
});

/** The role in the store at this address; undefined without rights, or if the store is elsewhere. */
export const storeRole = computed((): Role | undefined => {
  const found = access.value;
  if (!found || found.store !== "in-process") return undefined;
  return found.keysRequired ? found.key?.store?.role : "admin";
});

const RANK: Record<Role, number> = { reader: 0, writer: 1, admin: 2 };

/** Whether a role includes another one. */
export function includes(role: Role | undefined, needed: Role): boolean {
  return role !== undefined && RANK[role] >= RANK[needed];
}

whenUnauthorized((failure) => {
  keep("");
  // Without a key, the service only says that it needs one.
  const had = session.value.state === "ready";
  session.value = { state: "signed-out", reason: had ? words.keyNoLongerValid : raw(failure.detail) };
});

/** Set what happens when a caller signs out: the next one may not see what this one has. */
export function whenSignedOut(action: () => void): void {
  session.subscribe(() => {
    if (session.value.state === "signed-out") action();
  });
}

/** Read the rights, with the key of this tab if there is one. */
export async function start(): Promise<void> {
  useKey(kept());
  await learn("");
}

/** Sign in with a key. */
export async function signIn(key: string): Promise<void> {
  useKey(key);
  await learn(key);
}

/** Forget the key. */
export function signOut(): void {
  keep("");
  session.value = { state: "signed-out", reason: "" };
}

async function learn(key: string): Promise<void> {
  try {
    const { value } = await gateway("get", "/access");
    if (key) keep(key);
    const isSignedOut = value.keysRequired && value.key === null;
    session.value = isSignedOut ? { state: "signed-out", reason: "" } : { state: "ready", access: value };
  } catch (error) {
    const failure = asFailure(error);
    if (failure.status !== 401) session.value = { state: "failed", failure, at: Date.now() };
  }
}

function kept(): string {
  try {
    return sessionStorage.getItem(KEPT) ?? "";
  } catch {
    return "";
  }
}

function keep(key: string): void {
  useKey(key);
  try {
    if (key) sessionStorage.setItem(KEPT, key);
    else sessionStorage.removeItem(KEPT);
  } catch {
    // Storage is switched off: the key stays in memory until the tab is left.
  }
}
