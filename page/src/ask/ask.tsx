/** The area Ask: questions to models and bases, replies with citations, and the passages that the model got. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { h } from "../jsx";
import { useCopy } from "../code";
import { Empty, Problem } from "../parts";
import { mark, plain, Stored } from "../stored";
import { words } from "../words";
import { AddToSet } from "./add_to_set";
import { Beside } from "./beside";
import { chat, isRecorded, type Target, type Turn } from "./chat";
import { Feedback } from "./feedback";
import { PassageList } from "./passage_list";
import type { Passage } from "./passages";
import { Reply, type Open } from "./reply";
import { hasChat, TargetChooser, TargetProblems, useTargets } from "./targets";
import { say } from "./words";

const MAX_QUESTION = 32_768;
/** The reader is at the end of the conversation, and follows it. */
const NEAR_PIXELS = 80;

interface Opened {
  turn: Turn;
  passage: Passage;
}

export default function Ask() {
  const changes = chat.changes.value;
  const targets = useTargets();
  const [opened, setOpened] = useState<Opened>();
  const opener = useRef<Element | null>(null);
  const scroller = useFollowing(changes);
  const shown = opened && chat.turns.includes(opened.turn) ? opened : undefined;
  function close(): void {
    setOpened(undefined);
    if (opener.current instanceof HTMLElement && opener.current.isConnected) opener.current.focus();
  }
  const { models, bases, chosen } = targets;
  const isEmpty = !chosen && models.data !== undefined && bases.data !== undefined;
  return (
    <div class="screen">
      <div class="screen-head">
        <h1>{words.ask}</h1>
        {!hasChat() && <p class="fine">{say.noUpstream}</p>}
        <div class="form-row">
          <TargetChooser of={targets} />
          <button type="button" disabled={chat.turns.length === 0} onClick={() => chat.clear()}>
            {say.newChat}
          </button>
        </div>
        <TargetProblems of={targets} />
      </div>
      <div class="with-panel">
        <div class="list">
          <div ref={scroller} class="scroll stack turns" role="region" aria-label={say.conversation} tabIndex={0}>
            {chat.turns.length === 0 && <Empty of={isEmpty ? say.noTarget : say.nothingAsked} />}
            {chat.turns.map((turn, index) => (
              <TurnView
                key={index}
                turn={turn}
                isLast={index === chat.turns.length - 1}
                open={(passage) => {
                  opener.current = document.activeElement;
                  setOpened({ turn, passage });
                }}
              />
            ))}
          </div>
          <QuestionForm target={chosen} />
        </div>
        {shown && <Beside passage={shown.passage} all={shown.turn.passages ?? []} close={close} />}
      </div>
    </div>
  );
}

/** Keep the end of the conversation in view while it grows, unless the reader has scrolled up. */
function useFollowing(changes: number) {
  const scroller = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(true);
  useEffect(() => {
    const element = scroller.current;
    function onScroll(): void {
      if (element) isFollowing.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PIXELS;
    }
    element?.addEventListener("scroll", onScroll, { passive: true });
    return () => element?.removeEventListener("scroll", onScroll);
  }, []);
  useLayoutEffect(() => {
    if (chat.isRunning && scroller.current && isFollowing.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [changes]);
  return scroller;
}

function QuestionForm({ target }: { target: Target | undefined }) {
  const { draft, isRunning } = chat;
  const [, redraw] = useState(0);
  const field = useRef<HTMLTextAreaElement>(null);
  const mayAsk = target !== undefined && draft.trim() !== "" && !isRunning;
  function ask(event: Event): void {
    event.preventDefault();
    if (mayAsk) chat.ask(draft.trim(), target);
    field.current?.focus();
  }
  return (
    <form class="ask-form" onSubmit={ask}>
      <label class="field">
        <span>{say.question}</span>
        <textarea
          ref={field}
          class="question"
          maxLength={MAX_QUESTION}
          value={draft}
          aria-describedby="question-hint"
          onInput={(event) => {
            chat.draft = event.currentTarget.value;
            redraw((last) => last + 1);
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) ask(event);
          }}
        />
      </label>
      <p class="spread">
        <span class="fine" id="question-hint">
          {say.questionHint}
        </span>
        {isRunning ? (
          <button type="button" onClick={() => chat.stop()}>
            {say.stop}
          </button>
        ) : (
          <button type="submit" class="primary" disabled={!mayAsk}>
            {say.ask}
          </button>
        )}
      </p>
    </form>
  );
}

function TurnView({ turn, isLast, open }: { turn: Turn; isLast: boolean; open: Open }) {
  const { state, target, text } = turn;
  return (
    <article class="turn stack tight" aria-label={say.askedOf(plain(target.name))}>
      <p class="fine">
        <Stored value={target.name} max={200} />
      </p>
      <p class="asked-question" dir="auto">
        <Stored value={mark(turn.question)} lines />
      </p>
      <div class="stack tight" aria-live="polite" aria-busy={state === "running"}>
        {text && <Reply text={text} citations={turn.citations} open={open} />}
        {state === "running" && !text && <p class="fine">{target.is === "base" ? say.searching : say.waiting}</p>}
        {state === "done" && target.is === "model" && !text && <p>{say.noText}</p>}
        {state === "stopped" && <p class="fine">{say.stopped}</p>}
        {turn.finish === "length" && <p class="fine">{say.tooLong}</p>}
      </div>
      {turn.failure && (
        <Problem failure={turn.failure} nextAt={turn.nextAt} {...(isLast && { retry: () => chat.retry() })} />
      )}
      {state !== "running" && (
        <div class="row actions">
          {text && <Copy text={text} />}
          {state === "done" && <AddToSet turn={turn} />}
          {isRecorded(turn) && <Feedback turn={turn} />}
        </div>
      )}
      <Passages turn={turn} isLast={isLast} open={open} />
    </article>
  );
}

function Passages({ turn, isLast, open }: { turn: Turn; isLast: boolean; open: Open }) {
  const { passages } = turn;
  if (turn.state === "running" || !passages) return null;
  if (passages.length === 0) return <p class="fine">{say.reasons[turn.reason] ?? say.noPassages}</p>;
  const title = turn.target.is === "base" ? say.passages(passages.length) : say.inPrompt(passages.length);
  return <PassageList of={passages} title={title} isOpen={isLast} open={open} />;
}

function Copy({ text }: { text: string }) {
  const { copy, outcome } = useCopy(text);
  return (
    <p class="row">
      <button type="button" onClick={copy}>
        {say.copy}
      </button>
      <span class="fine" role="status">
        {outcome}
      </span>
    </p>
  );
}
