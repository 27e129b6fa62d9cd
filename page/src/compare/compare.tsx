/** The area Compare: one question to two bases or assistants, with the fate of each passage. */
import { h } from "../jsx";
import { Empty, Loaded, useAttempts } from "../parts";
import { useResource } from "../resource";
import { words } from "../words";
import { Outcome } from "./outcome";
import { SideForm } from "./side_form";
import { comparison, keyOf, listTargets, NAMES, retrieve, send, setQuestion, targetOf, type Listed, type Name, type Trial } from "./sides";
import { say } from "./words";

const MAX_QUESTION = 32_768;

export default function Compare() {
  const listed = useResource("targets", listTargets);
  return (
    <div class="screen">
      <div class="screen-head">
        <h1>{words.compare}</h1>
        <p class="fine">{say.hint}</p>
      </div>
      <div class="scroll stack">
        <Loaded of={listed} draw={(data) => <Sides of={data} />} />
      </div>
    </div>
  );
}

function Sides({ of }: { of: Listed }) {
  const { question, sent } = comparison.value;
  const { problem, run } = useAttempts();
  const targets = { a: targetOf("a", of), b: targetOf("b", of) };
  function compare(event: Event): void {
    void run(async () => question.trim() && send(targets), event);
  }
  return (
    <div class="stack">
      <form class="stack" onSubmit={compare}>
        <label class="field">
          <span>{say.question}</span>
          <textarea
            class="question"
            maxLength={MAX_QUESTION}
            value={question}
            onInput={(event) => setQuestion(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && !event.shiftKey && !event.isComposing) compare(event);
            }}
          />
        </label>
        <div class="beside">
          {NAMES.map((name) => (
            <SideForm key={name} name={name} target={targets[name]} listed={of} />
          ))}
        </div>
        {problem}
        <p class="row">
          <button type="submit" class="primary" disabled={!question.trim()}>
            {say.compare}
          </button>
        </p>
      </form>
      {sent ? <Results key={sent.run} bodies={sent.bodies} /> : <Empty of={say.nothingCompared} />}
    </div>
  );
}

function Results({ bodies }: { bodies: Record<Name, object> }) {
  const a = useResource("a", (signal) => retrieve(bodies.a, signal));
  const b = useResource("b", (signal) => retrieve(bodies.b, signal));
  return (
    <div class="stack">
      {a.data && b.data && <Common a={a.data} b={b.data} />}
      <div class="beside">
        <section class="stack tight" aria-label={say.side("A")}>
          <h2>A</h2>
          <Loaded of={a} draw={(data) => <Outcome of={data} other={b.data} otherName="B" />} />
        </section>
        <section class="stack tight" aria-label={say.side("B")}>
          <h2>B</h2>
          <Loaded of={b} draw={(data) => <Outcome of={data} other={a.data} otherName="A" />} />
        </section>
      </div>
    </div>
  );
}

/** The number of passages that both prompts have, and that only one of them has. */
function Common({ a, b }: { a: Trial; b: Trial }) {
  const [inA, inB] = [a, b].map((each) => new Set(each.passages.filter((one) => one.number !== undefined).map(keyOf))) as [Set<string>, Set<string>];
  const both = [...inA].filter((each) => inB.has(each)).length;
  return (
    <p class="facts" role="status">
      <span>{say.both(both)}</span>
      <span>{say.only(inA.size - both, "A")}</span>
      <span>{say.only(inB.size - both, "B")}</span>
    </p>
  );
}
