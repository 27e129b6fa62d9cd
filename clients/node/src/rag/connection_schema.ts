/** The JSON Schema of a provider's configuration, for a form, and the validation of a configuration by it. */

import { InvalidConfiguration } from "../errors.js";

/** The schema of one member. */
export interface MemberSchema {
  type: "string" | "number";
  title: string;
  description?: string;
  default?: string | number;
  pattern?: string;
  minLength?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  /** A form never shows its value: it is a secret. */
  writeOnly?: boolean;
  format?: "password";
}

/** The schema of a configuration: an object without nested objects. */
export interface ConnectionSchema {
  title: string;
  type: "object";
  properties: Readonly<Record<string, MemberSchema>>;
  required: readonly string[];
  additionalProperties: false;
}

/**
 * Validate a configuration.
 *
 * @returns the configuration with the schema's defaults.
 * @throws InvalidConfiguration with the path and without the value, which may be a secret.
 */
export function validateConfiguration(schema: ConnectionSchema, configuration: object, provider: string): object {
  const fail = (reason: string, name: string): never => {
    throw new InvalidConfiguration(`configuration of '${provider}': ${reason}: $.${name}`);
  };
  const valid: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(schema.properties)) {
    const value: unknown = (configuration as Record<string, unknown>)[name] ?? member.default;
    if (value !== undefined) {
      valid[name] = value;
      const reason = reasonAgainst(value, member);
      if (reason !== undefined) {
        fail(reason, name);
      }
    } else if (schema.required.includes(name)) {
      fail("required", name);
    }
  }
  const unknown = Object.keys(configuration).find((name) => !(name in schema.properties));
  return unknown === undefined ? valid : fail("unknown", unknown);
}

function reasonAgainst(value: unknown, member: MemberSchema): string | undefined {
  if (typeof value !== member.type) {
    return `must be a ${member.type}`;
  }
  if (typeof value === "string") {
    if (value.length < (member.minLength ?? 0)) {
      return "must not be empty";
    }
    return member.pattern && !new RegExp(member.pattern, "i").test(value) ? `must match ${member.pattern}` : undefined;
  }
  const { exclusiveMinimum = -Infinity, maximum = Infinity } = member;
  return Number(value) > exclusiveMinimum && Number(value) <= maximum
    ? undefined
    : `must be greater than ${exclusiveMinimum} and at most ${maximum}`;
}

/** The members that the connections of both built-in providers have. */
export const URL_MEMBER: MemberSchema = {
  type: "string",
  title: "URL",
  description: "Base URL of the service.",
  pattern: "^https?://",
};

export const TIMEOUT_MEMBER: MemberSchema = {
  type: "number",
  title: "Timeout",
  description: "Time limit of a call, in milliseconds.",
  exclusiveMinimum: 0,
  maximum: 600_000,
  default: 5_000,
};
