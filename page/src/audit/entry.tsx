/** An entry of the ledger beside the list. */
import { h } from "../jsx";
import { gateway } from "../api";
import { momentOf } from "../bases/calls";
import { Empty, Loaded } from "../parts";
import { useResource } from "../resource";
import { link } from "../route";
import { raw, Stored } from "../stored";
import { formatted, words } from "../words";
import { kindOf, type Entry } from "./entries";
import { useNames } from "./names";
import { Traces } from "./traces";
import { say } from "./words";

export function EntryPanel({ number, close }: { number: number; close: () => void }) {
  const found = useResource(`entry ${number}`, async (signal) => {
    const { value } = await gateway("get", "/audit", { query: { after: number - 1, limit: 1 }, signal });
    return value.entries.find((each) => each.sequence === number);
  });
  return (
    <aside class="panel" aria-label={say.number(number)}>
      <div class="panel-head">
        <h2>{say.number(number)}</h2>
        <button type="button" class="bare" onClick={close} aria-label={words.close}>
          ×
        </button>
      </div>
      <Loaded of={found} draw={(entry) => (entry ? <Shown of={entry} /> : <Empty of={say.noEntry} />)} />
    </aside>
  );
}

function Shown({ of: entry }: { of: Entry }) {
  const names = useNames([entry.data]);
  const facts: [string, Stored][] = [
    [words.key, entry.key],
    [words.requestId, entry.requestId],
    [say.step, entry.id],
    [say.hash, entry.hash],
    [say.previousHash, entry.previousHash],
  ];
  return (
    <div class="stack">
      <dl class="pairs">
        <dt>{say.fields.kind}</dt>
        <dd>{kindOf(entry)}</dd>
        <dt>{say.time}</dt>
        <dd>{momentOf(entry.createdOn)}</dd>
        {raw(entry.assistant) && <dt>{say.fields.assistant}</dt>}
        {raw(entry.assistant) && (
          <dd>
            <Stored value={entry.assistant} max={200} /> {entry.assistantVersion > 0 && say.version(formatted(entry.assistantVersion))}
          </dd>
        )}
        {raw(entry.conversation) && <dt>{say.fields.conversation}</dt>}
        {raw(entry.conversation) && (
          <dd>
            <a href={link(["audit", "conversations", entry.conversation])}>
              <Stored value={entry.conversation} />
            </a>
          </dd>
        )}
        {facts
          .filter(([, value]) => raw(value))
          .flatMap(([title, value]) => [
            <dt>{title}</dt>,
            <dd class="mono">
              <Stored value={value} />
            </dd>,
          ])}
      </dl>
      <Traces of={entry.data} names={names} />
    </div>
  );
}
