/** Schemas in words: their type, their limits, the schemas inside of them, and an example. */
import { mark, raw, type Stored } from "../stored";
import type { Media, Reference, Schema } from "./document";
import { say } from "./words";

/** A schema inside of another one. */
export interface Part {
  name: Stored;
  schema: Schema;
  isRequired: boolean;
}

/** The type of a schema: the name of a component, or types as JSON Schema names them. */
export function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) return raw(schema.$ref).split("/").at(-1) ?? "";
  const options = schema.anyOf ?? schema.oneOf;
  if (options) return options.map(typeOf).join(" | ");
  const types = typesOf(schema);
  if (types.length === 0) return schema.const !== undefined || schema.enum ? say.constant : say.anyType;
  return types.map((type) => (type === "array" && schema.items ? `${say.arrayOf} ${typeOf(schema.items)}` : type)).join(" | ");
}

function typesOf(schema: Schema): string[] {
  const type = schema.type ?? [];
  return (Array.isArray(type) ? type : [type]).map(raw);
}

/** The limits of a schema, and its default. */
export function limitsOf(schema: Schema): string[] {
  const found = [
    range(schema.minimum, schema.maximum, ""),
    schema.exclusiveMinimum === undefined ? "" : `> ${schema.exclusiveMinimum}`,
    schema.exclusiveMaximum === undefined ? "" : `< ${schema.exclusiveMaximum}`,
    range(schema.minLength, schema.maxLength, say.characters),
    range(schema.minItems, schema.maxItems, say.items),
    range(schema.minProperties, schema.maxProperties, say.properties),
    schema.uniqueItems ? say.unique : "",
    schema.format === undefined ? "" : `${say.format} ${raw(schema.format)}`,
    schema.contentEncoding === undefined ? "" : `${say.encoding} ${raw(schema.contentEncoding)}`,
    schema.pattern === undefined ? "" : `${say.pattern} ${raw(schema.pattern)}`,
    schema.const === undefined ? "" : `${say.always} ${JSON.stringify(schema.const)}`,
    ...Object.entries(schema.dependentRequired ?? {}).map(([name, needed]) => say.needs(name, needed.map(raw).join(", "))),
    schema.default === undefined ? "" : `${say.default} ${JSON.stringify(schema.default)}`,
  ];
  return found.filter(Boolean);
}

function range(least: number | undefined, greatest: number | undefined, unit: string): string {
  if (least === undefined && greatest === undefined) return "";
  if (greatest === undefined) return `≥ ${least} ${unit}`.trim();
  return (least === undefined ? `≤ ${greatest} ${unit}` : `${least} … ${greatest} ${unit}`).trim();
}

/** The schemas inside of a schema. Those of a list are the ones of its items, and an optional one has no level of its own. */
export function partsOf(reference: Reference, given: Schema): Part[] {
  const schema = reference.resolve(given);
  const options = schema.anyOf ?? schema.oneOf;
  if (options) {
    const values = options.filter((each) => typeOf(each) !== "null");
    const [only] = values;
    if (values.length === 1 && only) return partsOf(reference, only);
    return values.filter((each) => partsOf(reference, each).length > 0 || each.enum).map((each) => part(typeOf(each), each));
  }
  if (schema.items) return partsOf(reference, schema.items);
  const required = (schema.required ?? []).map(raw);
  const parts = Object.entries(schema.properties ?? {}).map(([name, each]) => part(name, each, required.includes(name)));
  if (typeof schema.additionalProperties === "object") parts.push(part(say.otherFields, schema.additionalProperties));
  return parts;
}

function part(name: string, schema: Schema, isRequired = false): Part {
  return { name: mark(name), schema, isRequired };
}

/** The values of an enumeration, of the schema, its items, or its only option. */
export function valuesOf(reference: Reference, given: Schema): unknown[] {
  const schema = reference.resolve(given);
  if (schema.enum) return schema.enum;
  if (schema.items && !schema.items.$ref) return valuesOf(reference, schema.items);
  const options = (schema.anyOf ?? schema.oneOf ?? []).filter((each) => typeOf(each) !== "null");
  return options.length === 1 && options[0] ? valuesOf(reference, options[0]) : [];
}

/** Whether a value is a file, or a list of files. */
export function isFile(reference: Reference, given: Schema): boolean {
  const schema = reference.resolve(given);
  if (schema.items) return isFile(reference, schema.items);
  return schema.format !== undefined && raw(schema.format) === "binary";
}

/** The body that a request of a media type begins with, as text. */
export function exampleText(reference: Reference, type: string, media: Media): string {
  const value = media.example ?? exampleOf(reference, media.schema ?? {});
  if (type.includes("ndjson")) return typeof value === "string" ? value : JSON.stringify(value);
  return typeof value === "string" && !type.includes("json") ? value : JSON.stringify(value, null, 2);
}

const MAX_DEPTH = 6;

/** A small value of a schema: its own example, or its required fields. */
export function exampleOf(reference: Reference, given: Schema, depth = 0): unknown {
  const schema = reference.resolve(given);
  const written = [schema.examples?.[0], schema.const, schema.default ?? undefined, schema.enum?.[0]].find((each) => each !== undefined);
  if (written !== undefined || depth > MAX_DEPTH) return written ?? null;
  const option = (schema.anyOf ?? schema.oneOf)?.find((each) => typeOf(each) !== "null");
  if (option) return exampleOf(reference, option, depth + 1);
  const [type] = typesOf(schema);
  if (type === "string") return say.exampleText.padEnd(schema.minLength ?? 0, "x").slice(0, schema.maxLength);
  if (type === "integer" || type === "number") return schema.minimum ?? Math.min(1, schema.maximum ?? 1);
  if (type === "boolean") return false;
  if (type === "null") return null;
  if (type === "array") return Array.from({ length: schema.minItems ?? 0 }, () => exampleOf(reference, schema.items ?? {}, depth + 1));
  const required = (schema.required ?? []).map(raw);
  const fields = Object.entries(schema.properties ?? {}).filter(([name]) => required.includes(name));
  return Object.fromEntries(fields.map(([name, each]) => [name, exampleOf(reference, each, depth + 1)]));
}
