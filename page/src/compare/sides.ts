/** The two sides of a comparison: their targets, their parameters, and the requests that they make. */
import { gateway } from "../api";
import { listBases, listNamed, type Named } from "../bases/calls";
import { parsedObject, parsedWhere } from "../collections/where";
import { route } from "../route";
import type { components } from "../schema/gateway";
import { whenSignedOut } from "../session";
import { Signal } from "../signal";
import { mark, raw, type Marked, type Stored } from "../stored";
import { say } from "./words";

export type Trial = Marked<components["schemas"]["RetrievalTrial"]>;
export type TrialPassage = Trial["passages"][number];

export const NAMES = ["a", "b"] as const;
export type Name = (typeof NAMES)[number];

/** The target of a side. */
export type Target = { is: "base" | "assistant"; id: string; name: Stored } | { is: "plain" };

/** The fields of a side, as they are written. Each is empty for the value that is stored. */
export interface Fields {
  maxResults: string;
  minScore: string;
  where: string;
  /** An assistant that is not stored. */
  assistant: string;
}

const NONE: Fields = { maxResults: "", minScore: "", where: "", assistant: "" };

interface Comparison {
  question: string;
  fields: Record<Name, Fields>;
  /** The bodies that were sent last, and the number of their comparison. */
  sent: { bodies: Record<Name, object>; run: number } | undefined;
}

const nothing = (): Comparison => ({ question: "", fields: { a: NONE, b: NONE }, sent: undefined });

/** The comparison of this tab. It ends with the tab or with the sign-out. */
export const comparison = new Signal<Comparison>(nothing());

// A comparison of a caller is not one of the next caller.
whenSignedOut(() => {
  comparison.value = nothing();
});

export function setQuestion(question: string): void {
  comparison.value = { ...comparison.value, question };
}

export function setFields(side: Name, changes: Partial<Fields>): void {
  const { fields } = comparison.value;
  comparison.value = { ...comparison.value, fields: { ...fields, [side]: { ...fields[side], ...changes } } };
}

/** Send the question to both sides. A field that is no JSON is an error. */
export function send(targets: Record<Name, Target>): void {
  const { question, fields, sent } = comparison.value;
  const bodies = { a: bodyOf(question, targets.a, fields.a), b: bodyOf(question, targets.b, fields.b) };
  comparison.value = { ...comparison.value, sent: { bodies, run: (sent?.run ?? 0) + 1 } };
}

function bodyOf(question: string, target: Target, { maxResults, minScore, where, assistant }: Fields): object {
  if (target.is === "plain") return { question };
  if (target.is === "assistant") return { question, assistant: assistant ? parsedObject(assistant, say.notObject) : raw(target.name) };
  const filter = parsedWhere(where);
  return {
    question,
    base: target.id,
    ...(maxResults && { maxResults: Number(maxResults) }),
    ...(minScore && { minScore: Number(minScore) }),
    ...(filter && { where: filter }),
  };
}

/** The retrieval of a side. */
export async function retrieve(body: object, signal: AbortSignal): Promise<Trial> {
  return (await gateway("post", "/ragstore/retrieve", { body: body as never, signal })).value;
}

export interface Listed {
  bases: Named[];
  assistants: { id: string; name: Stored }[];
}

/** All bases and assistants that exist for the caller. */
export async function listTargets(signal: AbortSignal): Promise<Listed> {
  const [bases, assistants] = await Promise.all([listBases("", signal), listNamed("assistants", "", signal)]);
  return { bases, assistants };
}

/** The stored assistant, as it is edited. */
export async function readAssistant(id: string): Promise<string> {
  const { value } = await gateway("get", "/ragstore/assistants/{id}", { path: { id } });
  return JSON.stringify(value, null, 2);
}

/** The value of a target in the address. */
export const addressOf = (target: Target): string => (target.is === "plain" ? "plain" : `${target.is} ${target.id}`);

/** The target of a side: of the address, or else the first base, or else a plain model. */
export function targetOf(side: Name, { bases, assistants }: Listed): Target {
  const chosen = route.value.query.get(side);
  const all: Target[] = [
    ...bases.map(({ id, name }): Target => ({ is: "base", id, name })),
    ...assistants.map(({ id, name }): Target => ({ is: "assistant", id, name })),
    { is: "plain" },
  ];
  return all.find((each) => addressOf(each) === chosen) ?? (all[0] as Target);
}

/** The name of a target. */
export const nameOf = (target: Target): Stored => (target.is === "plain" ? mark(say.plain) : target.name);

export const keyOf = ({ baseId, id }: TrialPassage): string => `${raw(baseId)} ${raw(id)}`;
