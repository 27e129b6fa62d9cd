/** The form of a question set: its fields, its questions, import and export. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import { gateway } from "../api";
import { word, type Named } from "../bases/calls";
import { Failure } from "../failure";
import { Confirm, RoleButton, useAttempts, WithCode } from "../parts";
import { go, link } from "../route";
import { gatewayRole, includes } from "../session";
import { mark, oneLine, plain, raw, Stored } from "../stored";
import { words } from "../words";
import { QuestionFields } from "./question";
import { exportSet, merged, readQuestions } from "./files";
import { questionsOf, writeSet, type QuestionSet, type SetQuestion } from "./sets";
import { say } from "./words";

const FAULT = /\$\.questions\[(\d+)\]/u;

interface Properties {
  /** Empty for a new set. */
  id: string;
  /** The current version; 0 for a new set. */
  version: number;
  /** The set without the unsaved changes. */
  initial: QuestionSet;
  draft: QuestionSet;
  bases: Named[];
  isChanged: boolean;
  set: (draft: QuestionSet) => void;
  /** Called when the draft is saved. */
  forget: () => void;
  /** Called when another version may be current. */
  changed: () => void;
}

export function Editor({ id, version, initial, draft, bases, isChanged, set, forget, changed }: Properties) {
  const [opened, setOpened] = useState<number>();
  const { isRunning, problem, run } = useAttempts();
  const imports = useAttempts();
  const [asks, setAsks] = useState(false);
  const may = includes(gatewayRole.value, "admin");
  const questions = questionsOf(draft);
  const put = (next: SetQuestion[]): void => set({ ...draft, questions: next });
  async function save(): Promise<void> {
    try {
      const written = await writeSet(id, version, draft);
      forget();
      if (id) changed();
      else go(link(["questions", written]));
    } catch (error) {
      // The question that the service names is shown.
      const at = error instanceof Failure && FAULT.exec(raw(error.detail))?.[1];
      if (at) setOpened(Number(at));
      throw error;
    }
  }
  async function load(input: HTMLInputElement): Promise<void> {
    await imports.run(async () => {
      for (const file of input.files ?? []) put(merged(questions, await readQuestions(file)));
    });
    input.value = "";
  }
  return (
    <form class="stack" onSubmit={(event) => void run(save, event)}>
      <fieldset class="stack" disabled={!may || isRunning}>
        <div class="form-fields">
          <label class="field">
            <span>{words.name} *</span>
            <input value={raw(draft.name)} onInput={(event) => set({ ...draft, name: mark(event.currentTarget.value) })} />
          </label>
          <label class="field">
            <span>{say.description}</span>
            <input value={raw(draft.description ?? word(""))} onInput={(event) => set({ ...draft, description: mark(event.currentTarget.value) })} />
          </label>
          <label class="field">
            <span>{say.base}</span>
            <select disabled={id !== ""} value={raw(draft.base)} onChange={(event) => set({ ...draft, base: mark(event.currentTarget.value) })}>
              {bases.map((each) => (
                <option key={each.id} value={each.id}>
                  {plain(each.name)}
                </option>
              ))}
            </select>
          </label>
        </div>
        <h2>{say.questionsLabel(questions.length)}</h2>
        <ol class="passages" aria-label={words.questions}>
          {questions.map((question, index) => (
            <li key={index} class="box">
              <details open={opened === index} onToggle={(event) => event.currentTarget.open !== (opened === index) && setOpened(event.currentTarget.open ? index : undefined)}>
                <summary>
                  <Stored value={oneLine(question.text, 200)} /> <span class="fine">{say.expected(question.passages.length)}</span>
                </summary>
                {opened === index && (
                  <QuestionFields
                    base={raw(draft.base)}
                    question={question}
                    set={(next) => put(questions.with(index, next))}
                    remove={() => {
                      setOpened(undefined);
                      put(questions.toSpliced(index, 1));
                    }}
                  />
                )}
              </details>
            </li>
          ))}
        </ol>
        <p class="row">
          <button
            type="button"
            onClick={() => {
              put([...questions, { text: word(""), earlier: [], passages: [] }]);
              setOpened(questions.length);
            }}
          >
            {say.addQuestion}
          </button>
          <label class="row">
            {say.importFile}
            <input type="file" accept=".json,.jsonl,.tsv" onChange={(event) => void load(event.currentTarget)} />
          </label>
        </p>
      </fieldset>
      <p class="fine">
        <WithCode of={say.importHint} />
      </p>
      {problem}
      {imports.problem}
      <p class="row">
        <button type="submit" class="primary" disabled={!may || isRunning || !isChanged}>
          {say.saveAs(version + 1)}
        </button>
        {!may && <span class="fine">{words.needsRole("admin")}</span>}
        {isChanged && (
          <button
            type="button"
            onClick={() => {
              set(initial);
              changed();
            }}
          >
            {say.discard}
          </button>
        )}
        <button type="button" onClick={() => exportSet(draft)}>
          {say.exportFile}
        </button>
        {id && <RoleButton role={gatewayRole.value} needs="admin" kind="danger" label={words.delete} onClick={() => setAsks(true)} />}
      </p>
      {asks && (
        <Confirm
          title={words.delete}
          question={say.deleteQuestion(say.questionsLabel(questionsOf(initial).length))}
          action={words.delete}
          name={initial.name}
          close={() => setAsks(false)}
          run={async () => {
            await gateway("delete", "/ragstore/questions/{id}", { path: { id }, query: { version, permanent: true } });
            go(link(["questions"]));
          }}
        />
      )}
    </form>
  );
}
