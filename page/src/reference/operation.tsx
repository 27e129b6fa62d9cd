/** An operation: its description, parameters, bodies and responses, and the form that calls it. */
import { h, type Child } from "../jsx";
import { Markdown } from "../markdown";
import { link, route } from "../route";
import { mark, raw, Stored } from "../stored";
import type { Media, Operation, Parameter, Reference } from "./document";
import { exampleText } from "./schema";
import { About, Head, SchemaTree } from "./schema_tree";
import { TryIt } from "./try_it";
import { say } from "./words";

/** The last segment of the address of the form. */
const FORM = "try";

interface Properties {
  reference: Reference;
  operation: Operation;
}

export function OperationView({ reference, operation }: Properties) {
  const id = raw(operation.operationId);
  const isForm = route.value.path.at(-1) === FORM;
  return (
    <article class="operation">
      <div class="screen-head">
        <p class="crumbs all-operations">
          <a href={link([])}>{say.allOperations}</a>
        </p>
        <h1 tabIndex={-1}>
          <Stored value={operation.summary ?? operation.operationId} />
        </h1>
        <p class="call">
          <Method of={operation.method} />{" "}
          <code>
            <Stored value={operation.path} />
          </code>
        </p>
        <p class="facts">
          <code>
            <Stored value={operation.operationId} />
          </code>
          <span>{operation.isPublic ? say.needsNoKey : say.needsKey}</span>
        </p>
      </div>
      <nav class="tabs" aria-label={say.views}>
        <a href={link([id])} aria-current={isForm ? undefined : "page"}>
          {say.description}
        </a>
        <a href={link([id, FORM])} aria-current={isForm ? "page" : undefined}>
          {say.tryIt}
        </a>
      </nav>
      <div class="scroll stack" hidden={isForm}>
        {operation.description !== undefined && <Markdown text={raw(operation.description)} />}
        <Parameters reference={reference} of={operation.parameters} />
        {operation.requestBody && (
          <Section title={say.request} fine={operation.requestBody.required ? say.required : say.optional}>
            {operation.requestBody.description !== undefined && <Markdown text={raw(operation.requestBody.description)} />}
            <Contents of={operation.requestBody.content} reference={reference} isRequest />
          </Section>
        )}
        <Section title={say.responses}>
          {operation.responses.map(([status, response]) => (
            <details key={raw(status)} class="box" open={raw(status).startsWith("2")}>
              <summary>
                <strong>
                  <Stored value={status} />
                </strong>{" "}
                {response.description !== undefined && <Stored value={response.description} max={500} />}
              </summary>
              <ul class="parts">
                {Object.entries(response.headers ?? {}).map(([name, { description, schema = {} }]) => (
                  <li key={name} class="part">
                    <Head name={mark(name)} schema={schema} isRequired={false} place={say.header} />
                    <About schema={{ ...schema, ...(description !== undefined && { description }) }} reference={reference} />
                  </li>
                ))}
              </ul>
              {response.content && <Contents of={response.content} reference={reference} />}
            </details>
          ))}
        </Section>
      </div>
      <div class="scroll" hidden={!isForm}>
        <TryIt reference={reference} operation={operation} />
      </div>
    </article>
  );
}

function Section({ title, fine, children }: { title: string; fine?: string; children?: Child }) {
  return (
    <section class="stack tight" aria-label={title}>
      <h2>
        {title} {fine && <span class="fine">{fine}</span>}
      </h2>
      {children}
    </section>
  );
}

function Parameters({ of: parameters, reference }: { of: Parameter[]; reference: Reference }) {
  if (parameters.length === 0) return null;
  return (
    <Section title={say.parameters}>
      <ul class="parts">
        {parameters.map((each) => {
          const [, media] = Object.entries(each.content ?? {})[0] ?? [];
          const schema = each.schema ?? media?.schema ?? {};
          const described = each.description === undefined ? schema : { ...schema, description: each.description };
          return (
            <li key={`${each.in} ${raw(each.name)}`} class="part">
              <Head name={each.name} schema={schema} isRequired={each.required === true} place={each.in} />
              <About schema={described} reference={reference} example={each.example ?? media?.example} />
            </li>
          );
        })}
      </ul>
    </Section>
  );
}

/** The media types of a body. Types with the same schema share a tree. */
function Contents({ of: content, reference, isRequest = false }: { of: Record<string, Media>; reference: Reference; isRequest?: boolean }) {
  const groups = new Map<string, [types: string[], media: Media]>();
  for (const [type, media] of Object.entries(content)) {
    const identity = JSON.stringify(media.schema);
    const group = groups.get(identity);
    if (group) group[0].push(type);
    else groups.set(identity, [[type], media]);
  }
  return (
    <div class="stack">
      {[...groups.values()].map(([types, media]) => (
        <div key={types[0] ?? ""} class="stack tight">
          <p class="fine">
            <Stored value={mark(types.join(", "))} />
          </p>
          {media.schema && <SchemaTree of={media.schema} reference={reference} />}
          {isRequest && types[0]?.includes("json") && (
            <pre tabIndex={0} aria-label={say.examples} role="group">
              <Stored value={mark(exampleText(reference, types[0], media))} lines />
            </pre>
          )}
        </div>
      ))}
    </div>
  );
}

/** The method of an operation. */
export function Method({ of: method }: { of: Stored }) {
  const name = raw(method);
  return <span class={`method ${name}`}>{name.toUpperCase()}</span>;
}
