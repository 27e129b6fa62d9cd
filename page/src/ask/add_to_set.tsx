/** A question of the chat becomes a question of a set, with the passages that are marked as expected. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import { Dialog, FormEnd, Loaded, RoleButton, useAttempts } from "../parts";
import { Labels } from "../questions/labels";
import { addQuestion, labelled, listSets, writeSet, type Candidate, type Expected } from "../questions/sets";
import { useResource } from "../resource";
import { link } from "../route";
import { gatewayRole } from "../session";
import { mark, plain, type Stored } from "../stored";
import { words } from "../words";
import type { Named } from "../bases/calls";
import { chat, type Turn } from "./chat";
import type { Passage } from "./passages";
import { say } from "./words";

export function AddToSet({ turn }: { turn: Turn }) {
  const [isOpen, setOpen] = useState(false);
  const [added, setAdded] = useState("");
  if (!turn.passages?.some(({ document }) => document !== undefined)) return null;
  return (
    <div class="row">
      <RoleButton role={gatewayRole.value} needs="admin" label={say.addToSet} onClick={() => setOpen(true)} />
      <span role="status">{added && <a href={link(["questions", added])}>{say.added}</a>}</span>
      {isOpen && (
        <Dialog title={say.addToSet} close={() => setOpen(false)}>
          <Sets turn={turn} added={setAdded} close={() => setOpen(false)} />
        </Dialog>
      )}
    </div>
  );
}

interface Properties {
  turn: Turn;
  /** Receives the id of the set. */
  added: (id: string) => void;
  close: () => void;
}

function Sets(properties: Properties) {
  const sets = useResource("sets", listSets);
  return <Loaded of={sets} rows={2} draw={(found) => <Form {...properties} sets={found} />} />;
}

/** A set of the list, or a new one of a base. */
interface Choice {
  id: string;
  base: string;
  title: Stored;
}

function Form({ turn, added, close, sets }: Properties & { sets: Named[] }) {
  const passages = (turn.passages ?? []).filter(({ document }) => document !== undefined);
  const bases = new Map(passages.map(({ baseId, base }) => [baseId, base]));
  const choices: Choice[] = [
    ...sets.filter((each) => bases.has(each.base)).map(({ id, base, name }) => ({ id, base, title: name })),
    ...[...bases].map(([base, name]) => ({ id: "", base, title: mark(say.newSet(plain(name))) as Stored })),
  ];
  const [chosen, setChosen] = useState(0);
  const { id, base } = choices[chosen] as Choice;
  const [name, setName] = useState("");
  const [expected, setExpected] = useState(citedOf(turn, base));
  const attempts = useAttempts();
  async function add(): Promise<void> {
    const question = mark({ text: turn.question, earlier: chat.earlier(turn), passages: expected });
    added(id ? await addQuestion(id, question) : await writeSet("", 0, mark({ name, base, questions: [question] })));
    close();
  }
  return (
    <form onSubmit={(event) => void attempts.run(add, event)}>
      <label class="field">
        <span>{say.set}</span>
        <select
          value={chosen}
          onChange={(event) => {
            const next = Number(event.currentTarget.value);
            setChosen(next);
            setExpected(citedOf(turn, choices[next]?.base));
          }}
        >
          {choices.map(({ title }, index) => (
            <option key={index} value={index}>
              {plain(title)}
            </option>
          ))}
        </select>
      </label>
      {!id && (
        <label class="field">
          <span>{words.name}</span>
          <input value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
      )}
      <Labels of={passages.filter(({ baseId }) => baseId === base).map(candidateOf)} expected={expected} set={setExpected} />
      <FormEnd action={words.add} of={attempts} close={close} />
    </form>
  );
}

const candidateOf = ({ document, span, text }: Passage): Candidate => ({ document: document as Stored, span, text: text as Stored });

/** The passages of a base that the reply cites. */
const citedOf = (turn: Turn, base: string | undefined): Expected[] =>
  turn.citations
    .flatMap((each) => each.passages)
    .filter(({ document, baseId }) => document !== undefined && baseId === base)
    .reduce<Expected[]>((found, each) => labelled(found, candidateOf(each), true), []);
