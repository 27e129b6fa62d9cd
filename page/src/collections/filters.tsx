/** The filters of the documents: conditions as chips, the same filter as JSON, and a text that documents contain. */
import { useEffect, useState } from "preact/hooks";
import { h, type Child } from "../jsx";
import { store } from "../api";
import { FilterText, useAttempts } from "../parts";
import { useResource } from "../resource";
import { amend } from "../route";
import { mark, plain, raw, Stored } from "../stored";
import { formatted, words } from "../words";
import {
  conditionsOf,
  parsedWhere,
  shown,
  takesList,
  typed,
  whereOf,
  type Condition,
  type Operator,
  type Scalar,
  type Where,
} from "./where";

interface Properties {
  collection: Stored;
  where: Where | undefined;
  /** Fields to suggest. */
  fields: Stored[];
  /** Exact number of matches; undefined until it is known. */
  total: number | undefined;
  /** Further controls beside the filters. */
  tools: Child;
}

export function Filters({ collection, where, fields, total, tools }: Properties) {
  const [isAdding, setAdding] = useState(false);
  const conditions = where ? conditionsOf(where) : [];
  function set(next: Where | undefined): void {
    amend({ where: next && JSON.stringify(next), id: undefined });
  }
  return (
    <section class="screen-head" aria-label={words.filters}>
      <div class="spread">
        <ul class="chips">
          {conditions?.map((condition, index) => (
            <li key={index} class="chip">
              <Chip condition={condition} />
              <button
                type="button"
                aria-label={`${words.remove}: ${plain(mark(condition.field), 60)}`}
                onClick={() => set(whereOf(conditions.filter((_, at) => at !== index)))}
              >
                ×
              </button>
            </li>
          ))}
          {!conditions && <li class="chip">{words.notSimple}</li>}
          <li>
            <button type="button" aria-expanded={isAdding} disabled={!conditions} onClick={() => setAdding(!isAdding)}>
              {words.addFilter}
            </button>
          </li>
        </ul>
        <div class="row">
          {tools}
          <span class="fine" role="status">
            {total !== undefined && words.countLabel(total)}
          </span>
        </div>
      </div>
      {isAdding && conditions && (
        <NewCondition
          collection={collection}
          fields={fields}
          add={(condition) => {
            setAdding(false);
            set(whereOf([...conditions, condition]));
          }}
        />
      )}
      <AsJson where={where} set={set} />
    </section>
  );
}

function Chip({ condition: { field, operator, value } }: { condition: Condition }) {
  const values = Array.isArray(value) ? value : [value];
  return (
    <span>
      <Stored value={mark(field)} max={60} /> {words.operators[operator]}{" "}
      <Stored value={mark(values.map(shown).join(", "))} max={80} />
    </span>
  );
}

/** A field for a text that documents contain. */
export function TextFilter({ contains }: { contains: string }) {
  const [text, setText] = useState(contains);
  useEffect(() => setText(contains), [contains]);
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        amend({ text, id: undefined });
      }}
    >
      <label class="row">
        <span class="fine">{words.textContains}</span>
        <input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit">{words.apply}</button>
    </form>
  );
}

/** A form for one condition, with the fields and values that exist. */
function NewCondition({
  collection,
  fields,
  add,
}: {
  collection: Stored;
  fields: Stored[];
  add: (condition: Condition) => void;
}) {
  const [field, setField] = useState("");
  const [operator, setOperator] = useState<Operator>("$eq");
  const [text, setText] = useState("");
  const isList = takesList(operator);
  const value: Scalar | Scalar[] = isList ? text.split(",").filter((each) => each.trim()).map((each) => typed(each.trim())) : typed(text);
  const isComplete = field !== "" && (isList ? (value as Scalar[]).length > 0 : text !== "");
  function submit(event: Event): void {
    event.preventDefault();
    if (isComplete) add({ field, operator, value });
  }
  return (
    <form class="box" onSubmit={submit}>
      <div class="form-row">
        <label class="field">
          <span>{words.field}</span>
          <input value={field} autocomplete="off" onInput={(event) => setField(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>{words.operator}</span>
          <select value={operator} onChange={(event) => setOperator(event.currentTarget.value as Operator)}>
            {Object.entries(words.operators).map(([name, label]) => (
              <option key={name} value={name}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>{words.value}</span>
          <input value={text} autocomplete="off" onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary" disabled={!isComplete}>
          {words.add}
        </button>
      </div>
      <p class="fine">{isList ? words.listHint : words.readsAs(kindOf(value as Scalar))}</p>
      {fields.length > 0 && <Suggestions label={words.fieldsSeen} of={fields} choose={(each) => setField(raw(each))} />}
      {field && (
        <Values
          collection={collection}
          field={field}
          text={isList ? (text.split(",").pop() ?? "").trim() : text}
          choose={(each) => setText(isList ? [...text.split(",").slice(0, -1), shown(each)].join(", ") : shown(each))}
        />
      )}
    </form>
  );
}

function kindOf(value: Scalar): string {
  return typeof value === "number" ? words.readAs.number : typeof value === "boolean" ? words.readAs.boolean : words.readAs.text;
}

function Values({
  collection,
  field,
  text,
  choose,
}: {
  collection: Stored;
  field: string;
  text: string;
  choose: (value: Scalar) => void;
}) {
  const [asked, setAsked] = useState(field);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(field), 250);
    return () => clearTimeout(timer);
  }, [field]);
  const values = useResource(asked, async (signal) => {
    const { value } = await store("get", "/collections/{collection_name}/metadata-values", {
      path: { collection_name: collection },
      query: { field: asked, limit: 1000, typed: true },
      signal,
    });
    return (value.typed_values ?? []) as unknown as Scalar[];
  });
  const wanted = text.toLowerCase();
  const found = values.data?.filter((each) => shown(each).toLowerCase().includes(wanted)).slice(0, 50) ?? [];
  if (found.length === 0) return null;
  const labels = found.map((each) => mark(shown(each)) as Stored);
  return <Suggestions label={words.valuesSeen} of={labels} choose={(_, index) => choose(found[index] ?? "")} />;
}

function Suggestions({ label, of, choose }: { label: string; of: Stored[]; choose: (value: Stored, index: number) => void }) {
  return (
    <div role="group" aria-label={label} class="stack tight">
      <span class="fine">
        {label} ({formatted(of.length)})
      </span>
      <div class="suggestions">
        {of.map((each, index) => (
          <button key={index} type="button" onClick={() => choose(each, index)}>
            <Stored value={each} max={60} />
          </button>
        ))}
      </div>
    </div>
  );
}

/** The filter as the `where` of the contract. */
function AsJson({ where, set }: { where: Where | undefined; set: (where: Where | undefined) => void }) {
  const written = where ? JSON.stringify(where, null, 2) : "";
  const [text, setText] = useState(written);
  const { problem, run } = useAttempts();
  useEffect(() => setText(written), [written]);
  return (
    <details>
      <summary>{words.filterJson}</summary>
      <form class="stack tight" onSubmit={(event) => void run(async () => set(parsedWhere(text)), event)}>
        <FilterText value={text} onText={setText} />
        {text !== written && problem}
        <p class="row">
          <button type="submit">{words.apply}</button>
        </p>
      </form>
    </details>
  );
}
