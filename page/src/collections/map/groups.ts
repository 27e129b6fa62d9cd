/** The groups of the points by a metadata field: each has a colour and a form, so that it is known without its colour. */
import { mark, raw, type Stored } from "../../stored";
import { formatted } from "../../words";
import { valueText } from "../metadata";
import { say } from "./words";

/** Forms of the groups. With `COLOURS` colours, no two groups have both in common. */
const GLYPHS = "●■▲◆★✚○□△◇☆";
const COLOURS = 6;
/** Numbers with more values than this are ranges. */
const MAX_VALUES = GLYPHS.length;
const RANGES = 6;

export interface Group {
  label: Stored;
  glyph: string;
  /** A class of the style sheet that sets the colour. */
  kind: string;
  points: number[];
}

/** The groups of points with these values, the largest first; one group of all points without values. */
export function groupsOf(values: unknown[] | null, total: number): Group[] {
  if (!values) return [group(mark(say.documents), 0, Array.from({ length: total }, (_, point) => point))];
  const absent: number[] = [];
  const byValue = new Map<string, number[]>();
  values.forEach((value, point) => {
    const points = value === null || value === undefined ? absent : pointsOf(byValue, raw(valueText(value)));
    points.push(point);
  });
  const isNumeric = values.every((value) => value === null || typeof value === "number");
  const found = isNumeric && byValue.size > MAX_VALUES ? rangesOf(byValue) : largestOf(byValue);
  return absent.length > 0 ? [...found, { label: mark(say.noValue), glyph: "×", kind: "rest", points: absent }] : found;
}

function pointsOf(byValue: Map<string, number[]>, value: string): number[] {
  const found = byValue.get(value) ?? [];
  byValue.set(value, found);
  return found;
}

function group(label: Stored, index: number, points: number[]): Group {
  return { label, glyph: GLYPHS[index] ?? "", kind: `colour-${index % COLOURS}`, points };
}

/** A group for each of the most frequent values, and one for all others. */
function largestOf(byValue: Map<string, number[]>): Group[] {
  const sorted = [...byValue].sort(([a, x], [b, y]) => y.length - x.length || (a < b ? -1 : 1));
  const found = sorted.slice(0, MAX_VALUES).map(([value, points], index) => group(mark(value), index, points));
  const rest = sorted.slice(MAX_VALUES).flatMap(([, points]) => points);
  return rest.length > 0 ? [...found, { label: mark(say.otherValues), glyph: "+", kind: "rest", points: rest }] : found;
}

/** Ranges of numbers with about the same number of points each. */
function rangesOf(byValue: Map<string, number[]>): Group[] {
  const sorted = [...byValue].map(([value, points]) => ({ value: Number(value), points })).sort((a, b) => a.value - b.value);
  const total = sorted.reduce((sum, { points }) => sum + points.length, 0);
  const ranges: (typeof sorted)[] = [];
  let passed = 0;
  for (const each of sorted) {
    const at = Math.floor((passed * RANGES) / total);
    (ranges[at] ??= []).push(each);
    passed += each.points.length;
  }
  return Object.values(ranges).map((range, index) => {
    const label = say.range(formatted(range[0]?.value ?? 0), formatted(range.at(-1)?.value ?? 0));
    return group(mark(label), index, range.flatMap(({ points }) => points));
  });
}
