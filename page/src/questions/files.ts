/** Files of questions: the export of a set, and the files that the page reads. */
import { saveFile } from "../api";
import { word } from "../bases/calls";
import { Failure } from "../failure";
import { mark, plain } from "../stored";
import { keyOf, type QuestionSet, type SetQuestion } from "./sets";
import { say } from "./words";

/** Save a set as a file of JSON. */
export function exportSet(body: QuestionSet): void {
  saveFile(new Blob([JSON.stringify(body, null, 1)]), `${plain(body.name)}.json`);
}

/** Questions with further ones; one that is the same for a set replaces the other. */
export const merged = (questions: SetQuestion[], further: SetQuestion[]): SetQuestion[] => [
  ...new Map([...questions, ...further].map((each) => [keyOf(each), each])).values(),
];

/**
 * The questions of a file: an exported set, or lines that are a JSON object each, or a question, a tab, and names of documents.
 * A line that is none is a failure.
 */
export async function readQuestions(file: File): Promise<SetQuestion[]> {
  const text = await file.text();
  let values: unknown[] = text.split("\n").filter((line) => line.trim());
  try {
    values = (JSON.parse(text) as { questions?: unknown[] }).questions ?? values;
  } catch {
    // There is an object on each line, or none.
  }
  return values.map((value, index) => {
    try {
      return questionOf(typeof value === "string" ? parsed(value) : value);
    } catch {
      throw new Failure(word(say.notRead(file.name, index + 1)), word(""));
    }
  });
}

function parsed(line: string): unknown {
  const [text, names] = line.split("\t");
  if (names === undefined) return JSON.parse(line);
  return { text, relevant: names.split(",").map((name) => name.trim()).filter(Boolean) };
}

interface Place {
  documentName: string;
  start?: number | null;
  end?: number | null;
}

interface Given {
  text: string;
  earlier?: string[];
  passages?: Place[];
  relevant?: string[] | object;
}

function questionOf(value: unknown): SetQuestion {
  const { text, earlier = [], passages, relevant = [] } = value as Given;
  const names = Array.isArray(relevant) ? (relevant as string[]) : Object.keys(relevant);
  const expected: Place[] = passages ?? names.map((documentName) => ({ documentName }));
  const isText = [text, ...earlier, ...expected.map((each) => each.documentName)].every((each) => typeof each === "string");
  const isNumber = expected.flatMap(({ start, end }) => [start ?? 0, end ?? 0]).every(Number.isInteger);
  if (!isText || !isNumber) throw new Error();
  return { text: mark(text), earlier: mark(earlier), passages: mark(expected) };
}
