/** The body of a request: a text, the fields of a form, or a file. */
import { Fragment, h } from "../jsx";
import { mark, Stored } from "../stored";
import type { Operation, Reference } from "./document";
import { fieldsOf, kindOf, mediaOf, typesOf, withType, type Form } from "./request";
import { say } from "./words";

interface Properties {
  reference: Reference;
  operation: Operation;
  form: Form;
  change: (next: Form) => void;
}

export function BodyForm({ reference, operation, form, change }: Properties) {
  const types = typesOf(operation);
  if (types.length === 0) return null;
  const isOptional = !operation.requestBody?.required;
  const kind = kindOf(form.type);
  return (
    <>
      {(types.length > 1 || isOptional) && (
        <label class="field">
          <span>{say.contentType}</span>
          <select value={form.type} onChange={(event) => change(withType(reference, operation, form, event.currentTarget.value))}>
            {isOptional && <option value="">{say.noBody}</option>}
            {types.map((each) => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
          </select>
        </label>
      )}
      {kind === "text" && (
        <label class="field">
          <span>
            {say.body} (<Stored value={mark(form.type)} />)
          </span>
          <textarea rows={rowsOf(form.text)} spellcheck={false} value={form.text} onInput={(event) => change({ ...form, text: event.currentTarget.value })} />
        </label>
      )}
      {kind === "file" && <FileField name="" label={say.chooseFile} form={form} change={change} />}
      {kind === "fields" && (
        <div class="form-fields">
          {fieldsOf(reference, mediaOf(operation, form.type)).map(({ name, isFile }) =>
            isFile ? (
              <FileField key={name} name={name} label={name} form={form} change={change} />
            ) : (
              <label key={name} class="field">
                <span>
                  <Stored value={mark(name)} />
                </span>
                <input
                  value={form.fields[name] ?? ""}
                  autocomplete="off"
                  onInput={(event) => change({ ...form, fields: { ...form.fields, [name]: event.currentTarget.value } })}
                />
              </label>
            ),
          )}
        </div>
      )}
    </>
  );
}

/** Rows of the field of a text: the text is visible without scrolling unless it is long. */
const rowsOf = (text: string): number => Math.min(Math.max(text.split("\n").length + 1, 4), 20);

function FileField({ name, label, form, change }: { name: string; label: string; form: Form; change: (next: Form) => void }) {
  return (
    <label class="field">
      <span>
        <Stored value={mark(label)} />
      </span>
      <input
        type="file"
        multiple={name !== ""}
        onChange={(event) => change({ ...form, files: { ...form.files, [name]: [...(event.currentTarget.files ?? [])] } })}
      />
    </label>
  );
}
