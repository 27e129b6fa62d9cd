/** A schema as a tree. The parts of a schema are drawn when it is opened, so that a schema may contain itself. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import { Markdown } from "../markdown";
import { mark, raw, Stored } from "../stored";
import type { Reference, Schema } from "./document";
import { limitsOf, partsOf, typeOf, valuesOf, type Part } from "./schema";
import { say } from "./words";

/** The fields of a schema; for one without fields, the schema itself. */
export function SchemaTree({ of: schema, reference }: { of: Schema; reference: Reference }) {
  const parts = partsOf(reference, schema);
  return (
    <div class="stack tight">
      <p>
        <span class="type">
          <Stored value={mark(typeOf(schema))} max={300} />
        </span>
      </p>
      {parts.length === 0 ? <About schema={schema} reference={reference} /> : <Parts of={parts} reference={reference} />}
    </div>
  );
}

function Parts({ of: parts, reference }: { of: Part[]; reference: Reference }) {
  return (
    <ul class="parts">
      {parts.map((each) => (
        <li key={raw(each.name)}>
          <Entry part={each} reference={reference} />
        </li>
      ))}
    </ul>
  );
}

function Entry({ part, reference }: { part: Part; reference: Reference }) {
  const [isOpen, setOpen] = useState(false);
  const inner = partsOf(reference, part.schema);
  return (
    <div class="part">
      <Head name={part.name} schema={part.schema} isRequired={part.isRequired} />
      <About schema={part.schema} reference={reference} />
      {inner.length > 0 && (
        <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>
            {say.fields} ({inner.length})
          </summary>
          {isOpen && <Parts of={inner} reference={reference} />}
        </details>
      )}
    </div>
  );
}

/** The name of a field or a parameter, its type, and whether it is required. */
export function Head({ name, schema, isRequired, place }: { name: Stored; schema: Schema; isRequired: boolean; place?: string }) {
  return (
    <p class="part-head">
      <code class="part-name">
        <Stored value={name} />
      </code>
      <span class="type">
        <Stored value={mark(typeOf(schema))} max={200} />
      </span>
      {place && <span class="fine">{place}</span>}
      {isRequired && <strong class="required">{say.required}</strong>}
    </p>
  );
}

/** The description of a schema, its limits, values and example. */
export function About({ schema: given, reference, example }: { schema: Schema; reference: Reference; example?: unknown }) {
  const schema = { ...reference.resolve(given), ...given };
  const inner = schema.items ? reference.resolve(schema.items) : onlyOption(schema, reference);
  const limits = [...limitsOf(schema), ...(inner ? limitsOf(inner).map((each) => (schema.items ? `${each} (${say.items})` : each)) : [])];
  const values = valuesOf(reference, schema);
  const shown = example ?? schema.examples?.[0];
  return (
    <div class="about">
      {schema.description !== undefined && <Markdown text={raw(schema.description)} />}
      {limits.length > 0 && (
        <p class="fine limits">
          {limits.map((each) => (
            <span key={each}>
              <Stored value={mark(each)} max={300} />
            </span>
          ))}
        </p>
      )}
      {values.length > 0 && (
        <p class="limits">
          <span class="fine">{say.values}</span>
          {values.map((each) => (
            <code key={String(each)}>
              <Stored value={mark(typeof each === "string" ? each : JSON.stringify(each))} />
            </code>
          ))}
        </p>
      )}
      {shown !== undefined && (
        <p class="limits">
          <span class="fine">{say.examples}</span>
          <code>
            <Stored value={mark(typeof shown === "string" ? shown : JSON.stringify(shown))} max={300} />
          </code>
        </p>
      )}
    </div>
  );
}

function onlyOption(schema: Schema, reference: Reference): Schema | undefined {
  const options = (schema.anyOf ?? schema.oneOf ?? []).filter((each) => typeOf(each) !== "null");
  return options.length === 1 && options[0] ? reference.resolve(options[0]) : undefined;
}
