/** The OpenAPI document of the service: its operations, and the objects that its references name. */
import { text } from "../api";
import { mark, raw, type Marked, type Stored } from "../stored";

interface SchemaShape {
  $ref?: string;
  type?: string | string[];
  format?: string;
  contentEncoding?: string;
  description?: string;
  properties?: Record<string, SchemaShape>;
  required?: string[];
  additionalProperties?: boolean | SchemaShape;
  propertyNames?: SchemaShape;
  items?: SchemaShape;
  anyOf?: SchemaShape[];
  oneOf?: SchemaShape[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  examples?: unknown[];
  pattern?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  minProperties?: number;
  maxProperties?: number;
  uniqueItems?: boolean;
  dependentRequired?: Record<string, string[]>;
}

interface MediaShape {
  schema?: SchemaShape;
  example?: unknown;
}

interface ParameterShape {
  name: string;
  in: "path" | "query" | "header";
  description?: string;
  required?: boolean;
  schema?: SchemaShape;
  content?: Record<string, MediaShape>;
  example?: unknown;
}

interface ResponseShape {
  $ref?: string;
  description?: string;
  content?: Record<string, MediaShape>;
  headers?: Record<string, { description?: string; schema?: SchemaShape }>;
}

interface OperationShape {
  operationId: string;
  tags?: string[];
  summary?: string;
  description?: string;
  security?: Record<string, unknown>[];
  parameters?: ParameterShape[];
  requestBody?: { required?: boolean; description?: string; content: Record<string, MediaShape> };
  responses: Record<string, ResponseShape>;
}

interface DocumentShape {
  info: { title: string; version: string; description?: string };
  tags?: { name: string; description?: string }[];
  security?: Record<string, unknown>[];
  paths: Record<string, Record<string, OperationShape>>;
  components?: Record<string, Record<string, SchemaShape & ResponseShape>>;
}

export type Schema = Marked<SchemaShape>;
export type Media = Marked<MediaShape>;
export type Parameter = Marked<ParameterShape>;
export type Responses = [status: Stored, Marked<ResponseShape>][];
type OpenApi = Marked<DocumentShape>;

/** An operation with the place where it is called. */
export type Operation = Omit<Marked<OperationShape>, "parameters" | "responses"> & {
  method: Stored;
  path: Stored;
  parameters: Parameter[];
  responses: Responses;
  /** Whether its requests may have no key. */
  isPublic: boolean;
};

export interface Tag {
  name: Stored;
  description: Stored | undefined;
  operations: Operation[];
}

const METHODS = new Set(["get", "post", "put", "patch", "delete"]);

/** The document, with its operations in the order of their tags. */
export class Reference {
  readonly info: OpenApi["info"];
  readonly tags: Tag[];

  constructor(private readonly document: OpenApi) {
    this.info = document.info;
    const operations = Object.entries(document.paths).flatMap(([path, item]) => this.operationsOf(path, item));
    const described = new Map((document.tags ?? []).map((tag) => [raw(tag.name), tag.description]));
    const names = new Set([...described.keys(), ...operations.map(tagOf)]);
    this.tags = [...names].map((name) => ({
      name: mark(name),
      description: described.get(name),
      operations: operations.filter((each) => tagOf(each) === name),
    }));
  }

  /** The operation with an id. */
  find(id: string): Operation | undefined {
    return this.tags.flatMap((tag) => tag.operations).find((each) => raw(each.operationId) === id);
  }

  /** The schema that a reference names, or the schema itself; one that refers to nothing is any value. */
  resolve(schema: Schema): Schema {
    let found: Schema | undefined = schema;
    for (let step = 0; found?.$ref !== undefined && step < MAX_STEPS; step += 1) found = this.component(found.$ref);
    return found?.$ref === undefined ? (found ?? {}) : {};
  }

  private component(reference: Stored): (Schema & Marked<ResponseShape>) | undefined {
    const [, , kind = "", name = ""] = raw(reference).split("/");
    return own(own(this.document.components, kind), name);
  }

  private operationsOf(path: string, item: Marked<Record<string, OperationShape>>): Operation[] {
    return Object.entries(item)
      .filter(([method]) => METHODS.has(method))
      .map(([method, found]) => ({
        ...found,
        method: mark(method),
        path: mark(path),
        parameters: found.parameters ?? [],
        responses: Object.entries(found.responses).map(([status, response]): Responses[number] => [
          mark(status),
          response.$ref === undefined ? response : (this.component(response.$ref) ?? {}),
        ]),
        isPublic: (found.security ?? this.document.security ?? []).length === 0 && found.security !== undefined,
      }));
  }
}

const MAX_STEPS = 10;

/** A property of its own: not one that every object has, such as `constructor`. */
function own<T>(of: Record<string, T> | undefined, name: string): T | undefined {
  return of && Object.hasOwn(of, name) ? of[name] : undefined;
}

const tagOf = ({ tags: [name] = [] }: Operation): string => (name === undefined ? "" : raw(name));

/** Read the document of the service. */
export async function readReference(signal: AbortSignal): Promise<Reference> {
  return new Reference(mark(JSON.parse(await text("/openapi.json", signal)) as DocumentShape));
}

/** The operations that have all words of a text, with their tags. */
export function matching(tags: Tag[], searched: string): Tag[] {
  const words = searched.toLowerCase().split(/\s+/u).filter(Boolean);
  return tags
    .map((tag) => ({ ...tag, operations: tag.operations.filter((each) => words.every((word) => textOf(each).includes(word))) }))
    .filter((tag) => tag.operations.length > 0);
}

function textOf({ method, path, operationId, summary, description, tags = [] }: Operation): string {
  const parts = [method, path, operationId, summary, description, ...tags].filter((each) => each !== undefined);
  return parts.map(raw).join(" ").toLowerCase();
}
