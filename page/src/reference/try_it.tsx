/** A form that calls an operation, and its response. */
import { useEffect, useRef, useState } from "preact/hooks";
import { saveFile } from "../api";
import { Code } from "../code";
import { asFailure, type Failure } from "../failure";
import { Fragment, h } from "../jsx";
import { Problem } from "../common_parts";
import { access, session, start } from "../session";
import { mark, raw, Stored, StoredText } from "../stored";
import { size } from "../common_words";
import { BodyForm } from "./body_form";
import type { Operation, Parameter, Reference } from "./document";
import { curlOf, firstForm, keyOf, lacking, requestOf, type Form } from "./request";
import { indented, receive, type Shown } from "./response";
import { valuesOf } from "./schema";
import { say } from "./words";

/** The forms of this tab, by operation: they stay while other operations are read. */
const forms = new Map<string, Form>();
/** How often a caller has left. The next one sees nothing of the forms and responses before. */
let departures = 0;
let isPresent = false;
session.subscribe(() => {
  const wasPresent = isPresent;
  isPresent = session.value.state === "ready";
  if (isPresent || !wasPresent) return;
  departures += 1;
  forms.clear();
});

interface Properties {
  reference: Reference;
  operation: Operation;
}

export function TryIt(properties: Properties) {
  return <CallForm key={departures} {...properties} />;
}

function CallForm({ reference, operation }: Properties) {
  const id = raw(operation.operationId);
  const [form, setForm] = useState(() => forms.get(id) ?? firstForm(reference, operation));
  const [shown, setShown] = useState<Shown>();
  const [failure, setFailure] = useState<Failure>();
  const [running, setRunning] = useState<AbortController>();
  const current = useRef<AbortController>(undefined);
  useEffect(() => () => current.current?.abort(), []);
  function change(next: Form): void {
    forms.set(id, next);
    setForm(next);
  }
  async function send(event: Event): Promise<void> {
    event.preventDefault();
    if (running) return;
    const controller = new AbortController();
    current.current = controller;
    setShown(undefined);
    setFailure(undefined);
    setRunning(controller);
    try {
      await receive(raw(operation.method), requestOf(operation, form), controller.signal, (next) => {
        setShown(next);
        // The service has rejected the key, or the call without one.
        if (next.isComplete && next.status === 401) void start();
      });
    } catch (error) {
      if (!controller.signal.aborted) setFailure(asFailure(error));
    }
    setRunning(undefined);
  }
  const missing = lacking(reference, operation, form);
  const method = raw(operation.method).toUpperCase();
  return (
    <div class="stack">
      <form class="stack" onSubmit={(event) => void send(event)}>
        <h2>{say.call}</h2>
        {operation.parameters.length > 0 && (
          <div class="form-fields">
            {operation.parameters.map((each) => (
              <Value
                key={keyOf(each)}
                parameter={each}
                reference={reference}
                value={form.parameters[keyOf(each)] ?? ""}
                onValue={(value) => change({ ...form, parameters: { ...form.parameters, [keyOf(each)]: value } })}
              />
            ))}
          </div>
        )}
        <BodyForm reference={reference} operation={operation} form={form} change={change} />
        <p class="row">
          <button type="submit" class={method === "DELETE" ? "danger" : "primary"} disabled={running !== undefined || missing.length > 0}>
            {say.send(method)}
          </button>
          {running && (
            <button type="button" onClick={() => running.abort()}>
              {say.stop}
            </button>
          )}
          {missing.length > 0 && (
            <span class="fine">
              {say.missing}: <Stored value={mark(missing.join(", "))} max={200} />
            </span>
          )}
          {session.value.state === "signed-out" && !operation.isPublic && <span class="fine">{say.signInFirst}</span>}
        </p>
      </form>
      {missing.length === 0 && <Curl operation={operation} form={form} />}
      <div aria-live="polite">
        {failure && <Problem failure={failure} />}
        {shown && <Response of={shown} name={id} />}
      </div>
    </div>
  );
}

function Curl({ operation, form }: { operation: Operation; form: Form }) {
  const needsKey = !operation.isPublic && access.value?.keysRequired !== false;
  let code: string;
  try {
    code = curlOf(operation, form, needsKey);
  } catch {
    // A value of the path would make it another path. The form says so when it is sent.
    return null;
  }
  return <Code title={say.curl} code={code} />;
}

function Value({ parameter, reference, value, onValue }: { parameter: Parameter; reference: Reference; value: string; onValue: (value: string) => void }) {
  const schema = parameter.schema ?? {};
  const type = schema.type !== undefined && !Array.isArray(schema.type) ? raw(schema.type) : "";
  const choices = type === "boolean" ? ["true", "false"] : type === "array" ? [] : valuesOf(reference, schema);
  return (
    <label class="field">
      <span>
        <Stored value={parameter.name} /> {parameter.required ? `(${say.required})` : ""}
      </span>
      {choices.length > 0 ? (
        <select value={value} onChange={(event) => onValue(event.currentTarget.value)}>
          <option value="">{say.unset}</option>
          {choices.map((each) => (
            <option key={String(each)} value={String(each)}>
              {String(each)}
            </option>
          ))}
        </select>
      ) : (
        <input value={value} autocomplete="off" spellcheck={false} onInput={(event) => onValue(event.currentTarget.value)} />
      )}
    </label>
  );
}

function Response({ of: shown, name }: { of: Shown; name: string }) {
  const { blob, text, type } = shown;
  const drawn = text !== undefined && shown.isComplete && !shown.isCut && /json(?!l)/u.test(type) && !type.includes("ndjson") ? indented(text) : text;
  return (
    <section class="stack tight" aria-label={say.response} aria-busy={!shown.isComplete}>
      <h2>
        <span class={shown.status < 400 ? "state-ok" : "state-bad"}>
          {shown.status} <Stored value={mark(shown.statusText)} />
        </span>{" "}
        <span class="fine">{say.received(size(shown.bytes), shown.milliseconds)}</span>
      </h2>
      <dl class="pairs">
        {shown.headers.map(([header, value]) => (
          <Fragment key={header}>
            <dt>{header}</dt>
            <dd>
              <Stored value={mark(value)} max={1000} />
            </dd>
          </Fragment>
        ))}
      </dl>
      {shown.isCut && <p class="message">{say.cut}</p>}
      {drawn !== undefined && drawn !== "" && (
        <div class="body" tabIndex={0} role="group" aria-label={say.body}>
          <StoredText value={mark(drawn)} />
        </div>
      )}
      {blob && (
        <p class="row">
          <span>
            <Stored value={mark(say.notText(size(blob.size), type))} />
          </span>
          <button type="button" onClick={() => saveFile(blob, name)}>
            {say.save}
          </button>
        </p>
      )}
    </section>
  );
}
