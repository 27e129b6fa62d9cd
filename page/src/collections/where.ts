/** Filters: a list of conditions, and the same filter as the `where` of the contract. */
import { Failure } from "../failure";
import { mark } from "../stored";
import { words } from "../words";

export type Operator = keyof typeof words.operators;
export type Scalar = string | number | boolean;

export interface Condition {
  field: string;
  operator: Operator;
  value: Scalar | Scalar[];
}

export type Where = Record<string, unknown>;

/** The filter in an address. */
export function filterIn(query: URLSearchParams): { where: Where | undefined; contains: string } {
  let where: Where | undefined;
  try {
    where = JSON.parse(query.get("where") ?? "null") as Where | undefined;
  } catch {
    where = undefined;
  }
  return { where: where ?? undefined, contains: query.get("text") ?? "" };
}

/** The filter of conditions that must all hold. */
export function whereOf(conditions: Condition[]): Where | undefined {
  const parts = conditions.map(({ field, operator, value }) => ({
    [field]: operator === "$eq" ? value : { [operator]: value },
  }));
  if (parts.length === 0) return undefined;
  return parts.length === 1 ? parts[0] : { $and: parts };
}

/** The conditions of a filter; undefined if it is more than a list of conditions. */
export function conditionsOf(where: Where): Condition[] | undefined {
  const found: Condition[] = [];
  for (const [field, condition] of Object.entries(where)) {
    if (field === "$and" && Array.isArray(condition)) {
      for (const part of condition) {
        const inner = isObject(part) ? conditionsOf(part) : undefined;
        if (!inner) return undefined;
        found.push(...inner);
      }
    } else if (field.startsWith("$")) {
      return undefined;
    } else if (isScalar(condition)) {
      found.push({ field, operator: "$eq", value: condition });
    } else if (isObject(condition)) {
      for (const [operator, value] of Object.entries(condition)) {
        if (!(operator in words.operators)) return undefined;
        if (!isScalar(value) && !(Array.isArray(value) && value.every(isScalar))) return undefined;
        found.push({ field, operator: operator as Operator, value });
      }
    } else {
      return undefined;
    }
  }
  return found;
}

/** A value as the reader typed it: a number, true, false, or a text, which quotation marks make of anything. */
export function typed(text: string): Scalar {
  const trimmed = text.trim();
  if (trimmed === "true" || trimmed === "false") return trimmed === "true";
  if (/^-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/iu.test(trimmed)) return Number(trimmed);
  const quoted = /^"(.*)"$/su.exec(trimmed);
  return quoted ? (quoted[1] ?? "") : text;
}

/** A value as `typed` reads it. */
export function shown(value: Scalar): string {
  return typeof value === "string" && typeof typed(value) !== "string" ? `"${value}"` : String(value);
}

/** Whether an operator takes several values. */
export function takesList(operator: Operator): boolean {
  return operator === "$in" || operator === "$nin";
}

/** The filter of a text that should be JSON. Throws a `Failure` for the reader. */
export function parsedWhere(text: string): Where | undefined {
  const value = text.trim() ? parsedObject(text, words.notObject) : {};
  return Object.keys(value).length ? value : undefined;
}

/** The object of a text that should be JSON; `otherwise` says that it is another value. */
export function parsedObject(text: string, otherwise: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Failure(mark(words.notJson((error as Error).message)));
  }
  if (!isObject(value)) throw new Failure(mark(otherwise));
  return value;
}

function isScalar(value: unknown): value is Scalar {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
