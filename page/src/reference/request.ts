/** The request that a form describes, as `fetch` sends it and as curl does. */
import { addressOf } from "../api";
import { SERVICE, quoted } from "../code";
import { raw } from "../stored";
import type { Media, Operation, Parameter, Reference } from "./document";
import { exampleText, isFile } from "./schema";

export interface Form {
  /** The texts of parameters by place and name; an empty one is not sent. */
  parameters: Record<string, string>;
  /** Media type of the body; empty for none. */
  type: string;
  text: string;
  /** The texts of a form's fields. */
  fields: Record<string, string>;
  /** The files of a form's fields; a body that is a file is the one of the empty name. */
  files: Record<string, File[]>;
}

/** How a body is written: as a text, as fields of a form, or as a file. */
export type BodyKind = "none" | "text" | "fields" | "file";

const MULTIPART = "multipart/form-data";

export function kindOf(type: string): BodyKind {
  if (!type) return "none";
  if (type === MULTIPART) return "fields";
  return /^text\/|json/u.test(type) ? "text" : "file";
}

export const keyOf = (parameter: Parameter): string => `${parameter.in} ${raw(parameter.name)}`;

/** The media types of the body of an operation that a form can have. MessagePack is no text. */
export function typesOf(operation: Operation): string[] {
  return Object.keys(operation.requestBody?.content ?? {}).filter((each) => !each.includes("msgpack"));
}

export function mediaOf(operation: Operation, type: string): Media {
  return operation.requestBody?.content[type] ?? {};
}

/** The form of an operation at first: its examples, and nothing that is optional. */
export function firstForm(reference: Reference, operation: Operation): Form {
  const parameters = operation.parameters.filter((each) => each.required).map((each) => [keyOf(each), textOf(each)]);
  const [type = ""] = typesOf(operation);
  return withType(reference, operation, { parameters: Object.fromEntries(parameters), type: "", text: "", fields: {}, files: {} }, type);
}

/** The form with another media type of the body. */
export function withType(reference: Reference, operation: Operation, form: Form, type: string): Form {
  return { ...form, type, text: kindOf(type) === "text" ? exampleText(reference, type, mediaOf(operation, type)) : "" };
}

function textOf({ example, schema }: Parameter): string {
  const value = example ?? schema?.examples?.[0] ?? schema?.default ?? "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The fields of a form's body; without declared ones, files of any name. */
export function fieldsOf(reference: Reference, media: Media): { name: string; isFile: boolean; isRequired: boolean }[] {
  const schema = reference.resolve(media.schema ?? {});
  const required = (schema.required ?? []).map(raw);
  const fields = Object.entries(schema.properties ?? {}).map(([name, each]) => ({
    name,
    isFile: isFile(reference, each),
    isRequired: required.includes(name),
  }));
  return fields.length > 0 ? fields : [{ name: "files", isFile: true, isRequired: true }];
}

/** The names of required parts that a form lacks. */
export function lacking(reference: Reference, operation: Operation, form: Form): string[] {
  const parameters = operation.parameters.filter((each) => each.required && !form.parameters[keyOf(each)]).map((each) => raw(each.name));
  const kind = kindOf(form.type);
  if (kind === "file" && !form.files[""]?.length) return [...parameters, form.type];
  if (kind !== "fields") return parameters;
  const fields = fieldsOf(reference, mediaOf(operation, form.type)).filter((each) => each.isRequired);
  return [...parameters, ...fields.filter(({ name, isFile }) => !(isFile ? form.files[name]?.length : form.fields[name])).map((each) => each.name)];
}

export interface Request {
  url: URL;
  headers: Record<string, string>;
  body: BodyInit | null;
}

/**
 * The request of a form.
 *
 * Throws a `Failure` if a value of the path would make it another path.
 */
export function requestOf(operation: Operation, form: Form): Request {
  const of = (place: string): Record<string, string> =>
    Object.fromEntries(
      operation.parameters
        .filter((each) => each.in === place && form.parameters[keyOf(each)])
        .map((each) => [raw(each.name), form.parameters[keyOf(each)] ?? ""]),
    );
  const url = addressOf(raw(operation.path), { path: of("path"), query: of("query") });
  const headers: Record<string, string> = { Accept: acceptOf(operation), ...of("header") };
  const kind = kindOf(form.type);
  // The browser writes the boundary of a form.
  if (kind === "text" || kind === "file") headers["Content-Type"] = form.type;
  return { url, headers, body: bodyOf(kind, form) };
}

function bodyOf(kind: BodyKind, form: Form): BodyInit | null {
  if (kind === "none") return null;
  if (kind === "text") return form.text;
  if (kind === "file") return form.files[""]?.[0] ?? null;
  const body = new FormData();
  for (const [name, text] of Object.entries(form.fields)) if (text) body.append(name, text);
  for (const [name, files] of Object.entries(form.files)) for (const file of files) if (name) body.append(name, file, file.name);
  return body;
}

/** JSON where an operation has it, or else what its successful response has. */
function acceptOf(operation: Operation): string {
  const success = operation.responses.find(([status]) => raw(status).startsWith("2"));
  const types = Object.keys(success?.[1].content ?? {});
  return types.includes("application/json") || types.length === 0 ? "application/json, */*;q=0.1" : `${types[0]}, */*;q=0.1`;
}

/** The request as a command. It reads the key from a variable. */
export function curlOf(operation: Operation, form: Form, needsKey: boolean): string {
  const { url, headers } = requestOf(operation, form);
  const address = SERVICE + url.href.slice(SERVICE.length);
  const lines = [`curl -s -X ${raw(operation.method).toUpperCase()} ${quoted(address)}`];
  if (needsKey) lines.push('-H "Authorization: Bearer $RAGSTORE_API_KEY"');
  lines.push(...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`));
  lines.push(...dataOf(form));
  return lines.join(" \\\n  ");
}

function dataOf(form: Form): string[] {
  const kind = kindOf(form.type);
  if (kind === "text") return [`--data-binary ${quoted(form.text)}`];
  if (kind === "file") return [`--data-binary ${quoted(`@${form.files[""]?.[0]?.name ?? "FILE"}`)}`];
  if (kind === "none") return [];
  const texts = Object.entries(form.fields).filter(([, text]) => text).map(([name, text]) => `--form-string ${quoted(`${name}=${text}`)}`);
  const files = Object.entries(form.files).flatMap(([name, all]) => all.map((file) => `-F ${quoted(`${name}=@${file.name}`)}`));
  return [...texts, ...files];
}
