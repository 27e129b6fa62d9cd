/** A form made from a JSON Schema: defaults are shown as values, and errors at their fields. */
import { useEffect, useState } from "preact/hooks";
import { h, type Child } from "../jsx";
import type { Failure } from "../failure";
import { mark, Stored } from "../stored";
import { words } from "../words";
import { fieldsOf, typesOf, valueOf, type Field, type Schema, type Values } from "./schema";
import { say } from "./words";

/** The faults of a form, by the path of the field. */
export type Faults = Map<string, string>;

/** The faults that a 400 names. */
export function faultsOf(failure: Failure | undefined): Faults {
  const found: Faults = new Map();
  const errors = (failure?.body as { errors?: unknown } | undefined)?.errors;
  for (const each of Array.isArray(errors) ? (errors as { path?: unknown; message?: unknown }[]) : []) {
    if (typeof each.path === "string") found.set(each.path, String(each.message ?? ""));
  }
  return found;
}

/** Move the focus to the first field with a fault. */
export function useFirstFault(failure: Failure | undefined): void {
  useEffect(() => {
    if (failure) document.querySelector<HTMLElement>("form [aria-invalid=true]")?.focus();
  }, [failure]);
}

interface Properties {
  schema: Schema;
  root: Schema;
  values: Values;
  set: (values: Values) => void;
  faults: Faults;
  /** The path of the object in the body. */
  path: string;
  isDisabled: boolean;
  /** The names of the fields to show, in this order; all if absent. */
  only?: string[];
}

export function Fields({ schema, root, values, set, faults, path, isDisabled, only }: Properties) {
  const fields = fieldsOf(schema, values, root);
  const shown = only ? only.flatMap((name) => fields.find((each) => each.name === name) ?? []) : fields;
  return (
    <div class="form-fields">
      {shown.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          root={root}
          value={values[field.name]}
          set={(value) => set(changed(values, field, value))}
          faults={faults}
          path={`${path}.${field.name}`}
          isDisabled={isDisabled}
        />
      ))}
    </div>
  );
}

/** The values with one of them changed. The parameters of another provider or engine begin with its defaults. */
function changed(values: Values, field: Field, value: unknown): Values {
  const next = { ...values, [field.name]: value };
  if (value === undefined) delete next[field.name];
  if (field.name === "embeddingProvider") next["embeddingParameters"] = {};
  if (field.name === "storeType") next["storeParameters"] = {};
  return next;
}

interface InputProperties {
  field: Field;
  root: Schema;
  value: unknown;
  set: (value: unknown) => void;
  faults: Faults;
  path: string;
  isDisabled: boolean;
}

function FieldInput(properties: InputProperties) {
  const { field, root, value, set, faults, path, isDisabled } = properties;
  const { schema } = field;
  if (schema.properties) {
    return (
      <fieldset class="nested">
        <legend>{schema.title}</legend>
        <Fields schema={schema} root={root} values={(value ?? {}) as Values} set={set} faults={faults} path={path} isDisabled={isDisabled} />
      </fieldset>
    );
  }
  const fault = faults.get(path);
  const id = `field${path.replace(/[^\w]/gu, "-")}`;
  return (
    <div class="field">
      <label for={id}>
        {schema.title}
        {field.isRequired && " *"}
      </label>
      {inputOf({ ...properties, id, fault })}
      {fault !== undefined && (
        <span class="message" id={`${id}-fault`}>
          ✗ <Stored value={mark(fault)} />
        </span>
      )}
      {schema.description && (
        <span class="fine" id={`${id}-hint`}>
          {schema.description}
        </span>
      )}
    </div>
  );
}

function inputOf({ field, value, set, isDisabled, id, fault }: InputProperties & { id: string; fault: string | undefined }): Child {
  const { schema, isNullable } = field;
  const given = valueOf(schema, value);
  const types = typesOf(schema);
  const common = {
    id,
    disabled: isDisabled,
    "aria-invalid": fault !== undefined,
    "aria-describedby": [fault !== undefined && `${id}-fault`, schema.description && `${id}-hint`].filter(Boolean).join(" ") || undefined,
  };
  if (schema.enum) {
    return (
      <select {...common} value={String(given)} onChange={(event) => set(event.currentTarget.value)}>
        {schema.enum.map((each) => (
          <option key={String(each)} value={String(each)}>
            {String(each)}
          </option>
        ))}
      </select>
    );
  }
  if (types.includes("boolean")) {
    const choices = [...(isNullable ? [["", say.byDefault]] : []), ["true", say.yes], ["false", say.no]] as const;
    return (
      <select
        {...common}
        value={given === null || given === undefined ? "" : String(given)}
        onChange={(event) => set(event.currentTarget.value === "" ? null : event.currentTarget.value === "true")}
      >
        {choices.map(([each, title]) => (
          <option key={each} value={each}>
            {title}
          </option>
        ))}
      </select>
    );
  }
  if (types.includes("integer") || types.includes("number")) {
    return (
      <input
        {...common}
        type="number"
        step={types.includes("integer") ? 1 : "any"}
        value={given === null || given === undefined ? "" : String(given)}
        onInput={(event) => set(numberOf(event.currentTarget.value, isNullable))}
      />
    );
  }
  if (types.includes("array")) {
    const lines = Array.isArray(given) ? (given as unknown[]).map(String).join("\n") : "";
    return (
      <textarea
        {...common}
        value={lines}
        spellcheck={false}
        placeholder={say.lines}
        onInput={(event) => set(event.currentTarget.value.split("\n").filter((line) => line.trim()))}
      />
    );
  }
  if (types.includes("object")) return <JsonInput common={common} value={given} set={set} />;
  return (
    <input
      {...common}
      autocomplete="off"
      value={given === null || given === undefined ? "" : String(given)}
      onInput={(event) => set(event.currentTarget.value === "" && (isNullable || schema.default === undefined) ? undefined : event.currentTarget.value)}
    />
  );
}

function numberOf(text: string, isNullable: boolean): unknown {
  if (text === "") return isNullable ? null : undefined;
  return Number(text);
}

/** An object without known fields, such as a filter. A text that is no JSON is kept in the field, and sent as it is. */
function JsonInput({ common, value, set }: { common: object; value: unknown; set: (value: unknown) => void }) {
  const [text, setText] = useState(() => JSON.stringify(value ?? {}, null, 1));
  const [error, setError] = useState("");
  return (
    <div>
      <textarea
        {...common}
        spellcheck={false}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          try {
            set(JSON.parse(event.currentTarget.value || "{}"));
            setError("");
          } catch (problem) {
            set(event.currentTarget.value);
            setError(words.notJson(problem instanceof Error ? problem.message : ""));
          }
        }}
      />
      {error && (
        <span class="message">
          <Stored value={mark(error)} />
        </span>
      )}
    </div>
  );
}
