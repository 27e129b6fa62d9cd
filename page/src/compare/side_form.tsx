/** The form of a side: its target, and other values than the stored ones. */
import { h } from "../jsx";
import { FilterText, RoleButton, useAttempts } from "../parts";
import { amend } from "../route";
import { gatewayRole } from "../session";
import { plain } from "../stored";
import { words } from "../words";
import { addressOf, comparison, readAssistant, setFields, type Listed, type Name, type Target } from "./sides";
import { say } from "./words";

interface Properties {
  name: Name;
  target: Target;
  listed: Listed;
}

export function SideForm({ name, target, listed: { bases, assistants } }: Properties) {
  return (
    <fieldset class="box">
      <legend class="group-title">{name.toUpperCase()}</legend>
      <label class="field">
        <span>{say.target}</span>
        <select
          value={addressOf(target)}
          onChange={(event) => {
            setFields(name, { maxResults: "", minScore: "", where: "", assistant: "" });
            amend({ [name]: event.currentTarget.value }, { replace: true });
          }}
        >
          {bases.length > 0 && (
            <optgroup label={say.bases}>
              {bases.map((each) => (
                <option key={each.id} value={`base ${each.id}`}>
                  {plain(each.name)}
                </option>
              ))}
            </optgroup>
          )}
          {assistants.length > 0 && (
            <optgroup label={say.assistants}>
              {assistants.map((each) => (
                <option key={each.id} value={`assistant ${each.id}`}>
                  {plain(each.name)}
                </option>
              ))}
            </optgroup>
          )}
          <option value="plain">{say.plain}</option>
        </select>
      </label>
      {target.is === "base" && <BaseFields name={name} />}
      {target.is === "assistant" && <AssistantField key={target.id} name={name} id={target.id} />}
    </fieldset>
  );
}

function BaseFields({ name }: { name: Name }) {
  const { maxResults, minScore, where } = comparison.value.fields[name];
  return (
    <div class="stack tight">
      <div class="form-row">
        <label class="field">
          <span>{words.number}</span>
          <input type="number" min={1} max={1000} value={maxResults} onInput={(event) => setFields(name, { maxResults: event.currentTarget.value })} />
        </label>
        <label class="field">
          <span>{say.minScore}</span>
          <input type="number" min={0} max={1} step="any" value={minScore} onInput={(event) => setFields(name, { minScore: event.currentTarget.value })} />
        </label>
      </div>
      <details>
        <summary>{words.filterJson}</summary>
        <FilterText value={where} onText={(text) => setFields(name, { where: text })} />
      </details>
      <p class="fine">{say.ownHint}</p>
    </div>
  );
}

function AssistantField({ name, id }: { name: Name; id: string }) {
  const { assistant } = comparison.value.fields[name];
  const { problem, run } = useAttempts();
  const edit = async (): Promise<void> => setFields(name, { assistant: await readAssistant(id) });
  if (!assistant) {
    return (
      <div class="stack tight">
        <RoleButton role={gatewayRole.value} needs="admin" label={say.edit} onClick={() => void run(edit)} />
        {problem}
      </div>
    );
  }
  return (
    <div class="stack tight">
      <label class="field">
        <span>{say.assistant}</span>
        <textarea spellcheck={false} value={assistant} onInput={(event) => setFields(name, { assistant: event.currentTarget.value })} />
      </label>
      <p class="fine">{say.editHint}</p>
      <p class="row">
        <button type="button" onClick={() => setFields(name, { assistant: "" })}>
          {say.stored}
        </button>
      </p>
    </div>
  );
}
