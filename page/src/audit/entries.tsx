/** Entries of the ledger, the newest first: a filter, a page of them, and one of them beside the list. */
import { h } from "../jsx";
import { gateway } from "../api";
import { momentOf } from "../bases/calls";
import { Empty, Loaded, Table } from "../parts";
import { useResource } from "../resource";
import { amend, go, link, route } from "../route";
import type { components } from "../schema/gateway";
import { plain, raw, Stored, type Marked } from "../stored";
import { formatted, words } from "../words";
import { EntryPanel } from "./entry";
import { usedOf } from "./searches";
import { say } from "./words";

export type Entry = Marked<components["schemas"]["AuditEntry"]>;
type Kind = keyof typeof say.kinds;

const PAGE = 50;
/** Pages without an entry that are read before the list is drawn: the gateway searches 10,000 entries for each. */
const MAX_EMPTY = 20;
const NAMES = ["conversation", "key", "assistant", "kind", "since", "until"] as const;

export function Entries() {
  const { query } = route.value;
  const opened = Number(query.get("entry") ?? "");
  const search = new URLSearchParams(query);
  search.delete("entry");
  const found = useResource(`entries ${search}`, (signal) => readEntries(search, signal));
  function close(): void {
    document.getElementById(idOf(opened))?.focus();
    amend({ entry: undefined });
  }
  return (
    <div class="with-panel" onKeyDown={(event) => event.key === "Escape" && opened > 0 && close()}>
      <div class="list">
        <div class="scroll stack">
          <Filters key={`${search}`} />
          <Loaded
            of={found}
            draw={({ entries, next }) => (
              <div class="stack tight">
                {entries.length === 0 ? <Empty of={next === null ? say.noEntry : say.noneYet} /> : <EntryTable of={entries} opened={opened} />}
                <p class="row">
                  <button type="button" disabled={!query.get("after")} onClick={() => amend({ after: undefined, entry: undefined })}>
                    {say.newest}
                  </button>
                  <button type="button" disabled={next === null} onClick={() => amend({ after: String(next), entry: undefined })}>
                    {say.older}
                  </button>
                  <button type="button" onClick={found.reload}>
                    {say.reload}
                  </button>
                </p>
              </div>
            )}
          />
        </div>
      </div>
      {opened > 0 && <EntryPanel key={opened} number={opened} close={close} />}
    </div>
  );
}

interface Page {
  entries: Entry[];
  next: number | null;
}

async function readEntries(search: URLSearchParams, signal: AbortSignal): Promise<Page> {
  let after = Number(search.get("after") ?? "") || 0;
  const given = Object.fromEntries(NAMES.map((name) => [name, valueOf(search, name)]).filter(([, value]) => value));
  for (let round = 1; ; round += 1) {
    const { value } = await gateway("get", "/audit", { query: { ...given, order: "newest", after, limit: PAGE }, signal });
    const next = value.next ?? null;
    if (value.entries.length > 0 || next === null || round === MAX_EMPTY) return { entries: value.entries, next };
    after = next;
  }
}

/** The value of a filter; a time of the form becomes a time of the contract. */
function valueOf(search: URLSearchParams, name: (typeof NAMES)[number]): string {
  const text = search.get(name) ?? "";
  if (name !== "since" && name !== "until") return text;
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

function Filters() {
  function apply(event: SubmitEvent): void {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    go(link(["audit", "entries"], Object.fromEntries(NAMES.map((name) => [name, String(given.get(name) ?? "").trim()]))));
  }
  return (
    <details class="box" open={NAMES.some((name) => route.value.query.get(name))}>
      <summary>{words.filters}</summary>
      <form class="form-row" onSubmit={apply}>
        <Field name="conversation" pattern="[A-Za-z0-9_:@=+~\-][A-Za-z0-9._:@=+~\-]{0,199}" />
        <Field name="key" />
        <Field name="assistant" />
        <label class="field">
          <span>{say.fields.kind}</span>
          <select name="kind" defaultValue={route.value.query.get("kind") ?? ""}>
            {Object.entries(say.kinds).map(([kind, title]) => (
              <option key={kind} value={kind}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <Field name="since" type="datetime-local" />
        <Field name="until" type="datetime-local" />
        <button type="submit" class="primary">
          {words.apply}
        </button>
        <button type="button" onClick={() => go(link(["audit", "entries"]))}>
          {say.clear}
        </button>
      </form>
    </details>
  );
}

function Field({ name, type = "text", pattern }: { name: keyof typeof say.fields; type?: "text" | "datetime-local"; pattern?: string }) {
  return (
    <label class="field">
      <span>{say.fields[name]}</span>
      <input name={name} type={type} pattern={pattern} maxLength={200} defaultValue={route.value.query.get(name) ?? ""} />
    </label>
  );
}

/** The id of the link of an entry, which gets the focus when its panel is closed. */
const idOf = (sequence: number): string => `entry-${sequence}`;

function EntryTable({ of, opened }: { of: Entry[]; opened: number }) {
  return (
    <Table label={say.entries} kind="compact" titles={[say.entry, say.fields.kind, say.caller, say.fields.conversation, say.used]} numbers={[say.used]}>
      {of.map((entry) => (
        <tr key={entry.sequence}>
          <th scope="row">
            <a
              id={idOf(entry.sequence)}
              href={link(["audit", "entries"], { ...Object.fromEntries(route.value.query), entry: String(entry.sequence) })}
              aria-current={entry.sequence === opened ? "true" : undefined}
            >
              {formatted(entry.sequence)}
            </a>
            <p class="fine">{momentOf(entry.createdOn)}</p>
          </th>
          <td>{kindOf(entry)}</td>
          <td>
            <Stored value={entry.assistant} max={40} />
            <p class="fine">
              <Stored value={entry.key} max={40} />
            </p>
          </td>
          <td>
            {raw(entry.conversation) && (
              <a href={link(["audit", "conversations", entry.conversation])} title={plain(entry.conversation)}>
                <Stored value={entry.conversation} max={24} />
              </a>
            )}
          </td>
          <td class="n">{usedText(entry)}</td>
        </tr>
      ))}
    </Table>
  );
}

/** The kind of an entry; of feedback, also its content. */
export function kindOf({ kind, data }: Entry): string {
  const name = raw(kind);
  if (name === "feedback") return (data as Record<string, unknown>)["helpful"] ? say.helpful : say.notHelpful;
  return say.kinds[name as Kind] ?? say.otherKind;
}

function usedText(entry: Entry): string {
  const { used, found } = usedOf(entry.data);
  return raw(entry.kind) === "retrieval" ? say.usedOf(used, found) : words.notCounted;
}
