/** Question sets: their types, their calls, and which passages a question expects. */
import { gateway } from "../api";
import { listNamed, versionOf, type Named } from "../bases/calls";
import type { Failure } from "../failure";
import type { components } from "../schema/gateway";
import { raw, type Marked, type Stored } from "../stored";

type Schemas = components["schemas"];

export type QuestionSet = Marked<Schemas["QuestionSet"]>;
export type SetQuestion = Marked<Required<Schemas["SetQuestion"]>>;
export type Expected = Marked<Schemas["ExpectedPassage"]>;

/** A version of a set. */
export interface StoredSet {
  version: number;
  body: QuestionSet;
}

/** A passage that may be expected. A record without a span has the whole document. */
export interface Candidate {
  document: Stored;
  span: { start: number; end: number } | undefined;
  text: Stored;
}

export const questionsOf = (body: QuestionSet): SetQuestion[] => (body.questions ?? []) as SetQuestion[];

/** All sets that exist for the caller, newest first. */
export const listSets = (signal: AbortSignal): Promise<Named[]> => listNamed("questions", "", signal);

/** Read the current version of a set. */
export async function readSet(id: string, signal?: AbortSignal): Promise<StoredSet> {
  const { value, resource } = await gateway("get", "/ragstore/questions/{id}", { path: { id }, ...(signal && { signal }) });
  return { version: versionOf(resource).version, body: value };
}

/** Write the next version of a set, or a new set; its id. */
export async function writeSet(id: string, version: number, body: QuestionSet): Promise<string> {
  const sent = body as never;
  const { resource } = version
    ? await gateway("put", "/ragstore/questions/{id}", { path: { id }, query: { version }, body: sent })
    : await gateway("post", "/ragstore/questions", { body: sent });
  return versionOf(resource).id;
}

const ATTEMPTS = 3;

/** Add a question to the current version of a set; the id of the set. A question that it has gets further passages. */
export async function addQuestion(id: string, question: SetQuestion): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    const { version, body } = await readSet(id);
    const before = questionsOf(body);
    const same = before.find((each) => keyOf(each) === keyOf(question)) ?? question;
    const passages = new Map([...same.passages, ...question.passages].map((each) => [JSON.stringify(each), each]));
    const next = { ...question, passages: [...passages.values()] };
    try {
      return await writeSet(id, version, { ...body, questions: [...before.filter((each) => each !== same), next] });
    } catch (error) {
      // Another client has written a version meanwhile.
      if ((error as Failure).code !== "version_conflict" || attempt === ATTEMPTS) throw error;
    }
  }
}

/** Whether a search that finds a passage has found an expected one: it has half of the span, or is of the document. */
export function covers({ document, span }: Candidate, expected: Expected): boolean {
  if (raw(document) !== raw(expected.documentName)) return false;
  const { start, end } = expected;
  if (typeof start !== "number" || typeof end !== "number") return true;
  return span !== undefined && 2 * (Math.min(span.end, end) - Math.max(span.start, start)) >= end - start;
}

/** The expected passages after a passage is labelled. */
export function labelled(expected: Expected[], candidate: Candidate, isExpected: boolean): Expected[] {
  if (!isExpected) return expected.filter((each) => !covers(candidate, each));
  if (expected.some((each) => covers(candidate, each))) return expected;
  return [...expected, { documentName: candidate.document, ...candidate.span }];
}

/** Questions with the same key are the same for a set. */
export const keyOf = ({ text, earlier }: SetQuestion): string => JSON.stringify([text, earlier]);
