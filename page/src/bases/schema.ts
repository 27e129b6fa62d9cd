/** The part of JSON Schema that the gateway's configurations use, resolved into the fields of a form. */

export interface Schema {
  title?: string;
  description?: string;
  type?: string | string[];
  enum?: unknown[];
  default?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  anyOf?: Schema[];
  allOf?: { if: Schema & { properties: Record<string, { const?: unknown }> }; then?: Schema; else?: Schema }[];
  $ref?: string;
  $defs?: Record<string, Schema>;
}

export type Values = Record<string, unknown>;

export interface Field {
  name: string;
  schema: Schema;
  /** Whether null is a value, too. */
  isNullable: boolean;
  isRequired: boolean;
}

/** The schema that a reference refers to, with the title and the description of the reference itself. */
export function resolved(schema: Schema, root: Schema): Schema {
  if (!schema.$ref) return schema;
  const target = root.$defs?.[schema.$ref.replace("#/$defs/", "")] ?? {};
  const { title = "", description = "" } = { ...target, ...schema };
  return { ...target, title, description };
}

/** The fields of an object, as they are for its values. */
export function fieldsOf(schema: Schema, values: Values, root: Schema): Field[] {
  const properties: Record<string, Schema> = { ...schema.properties };
  const required = new Set(schema.required);
  for (const { if: condition, then, else: otherwise } of schema.allOf ?? []) {
    const chosen = Object.entries(condition.properties).every(([name, each]) => valueOf(properties[name], values[name]) === each.const)
      ? then
      : otherwise;
    chosen?.required?.forEach((name) => required.add(name));
    for (const [name, each] of Object.entries(chosen?.properties ?? {})) {
      properties[name] = { ...each, ...pick(properties[name], each) };
    }
  }
  return Object.entries(properties)
    .filter(([, each]) => each.type !== "null")
    .map(([name, each]) => {
      const parts = each.anyOf?.filter((part) => part.type !== "null");
      const inner = parts?.length === 1 && parts[0] ? { ...parts[0], ...pick(each, parts[0]) } : each;
      return { name, schema: resolved(inner, root), isNullable: parts !== undefined, isRequired: required.has(name) };
    });
}

/** The title, the description and the default of a field, which replace those of a part of its schema. */
function pick(from: Schema | undefined, to: Schema): Schema {
  const title = from?.title ?? to.title;
  const description = from?.description ?? to.description;
  return { ...(title !== undefined && { title }), ...(description !== undefined && { description }), ...(from && "default" in from && { default: from.default }) };
}

/** A value, or the default of its field. */
export function valueOf(schema: Schema | undefined, value: unknown): unknown {
  return value === undefined ? schema?.default : value;
}

export function typesOf(schema: Schema): string[] {
  return schema.type === undefined ? [] : [schema.type].flat();
}
