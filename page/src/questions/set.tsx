/** One question set: its questions, which are edited before they are saved as a version, and its runs. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import { listBases, word, type Named } from "../bases/calls";
import { Empty, Loaded } from "../parts";
import { useResource } from "../resource";
import { link } from "../route";
import { whenSignedOut } from "../session";
import { mark, Stored } from "../stored";
import { words } from "../words";
import { Editor } from "./editor";
import { Runs } from "./runs";
import { readSet, type QuestionSet, type StoredSet } from "./sets";
import { say } from "./words";

interface Properties {
  /** Empty for a new set. */
  id: string;
  tab: string;
  /** The run whose outcomes are shown. */
  run: string | undefined;
}

export function SetView({ id, tab, run }: Properties) {
  const found = useResource("set", async (signal) => {
    const [stored, bases] = await Promise.all([id ? readSet(id, signal) : fresh, listBases("", signal)]);
    return { stored, bases };
  });
  return (
    <div class="screen">
      <div class="screen-head">
        <p class="crumbs">
          <a href={link(["questions"])}>{words.questions}</a>
        </p>
        <h1>{!id ? say.create : found.data ? <Stored value={found.data.stored.body.name} /> : say.set}</h1>
      </div>
      {id && (
        <nav class="tabs" aria-label={say.set}>
          <a href={link(["questions", id])} aria-current={tab ? undefined : "page"}>
            {words.questions}
          </a>
          <a href={link(["questions", id, "runs"])} aria-current={tab ? "page" : undefined}>
            {say.runs}
          </a>
        </nav>
      )}
      <div class="screen-body">
        <div class="scroll">
          <Loaded
            of={found}
            draw={({ stored, bases }) => (bases.length === 0 && !id ? <Empty of={say.noBase} /> : <Draft key={stored.version} {...{ id, tab, run, stored, bases }} changed={found.reload} />)}
          />
        </div>
      </div>
    </div>
  );
}

const fresh: StoredSet = { version: 0, body: { name: word(""), description: word(""), base: word(""), questions: [] } };

/** The unsaved changes of this tab, by set and version. */
const drafts = new Map<string, QuestionSet>();

whenSignedOut(() => drafts.clear());

function Draft({ id, tab, run, stored, bases, changed }: Properties & { stored: StoredSet; bases: Named[]; changed: () => void }) {
  const key = `${id} ${stored.version}`;
  const initial: QuestionSet = id ? stored.body : { ...stored.body, base: mark(bases[0]?.id ?? "") };
  const [draft, setDraft] = useState<QuestionSet>(drafts.get(key) ?? initial);
  function set(next: QuestionSet): void {
    drafts.set(key, next);
    setDraft(next);
  }
  const isChanged = JSON.stringify(draft) !== JSON.stringify(initial);
  if (tab) return <Runs id={id} run={run} isChanged={isChanged} />;
  return <Editor {...{ id, initial, draft, bases, changed, isChanged, set }} version={stored.version} forget={() => drafts.delete(key)} />;
}
