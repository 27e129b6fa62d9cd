/** Passages with a label each: whether a question expects it. */
import { h } from "../jsx";
import { Stored } from "../stored";
import { covers, labelled, type Candidate, type Expected } from "./sets";
import { say } from "./words";

const SHOWN_CHARACTERS = 600;

interface Properties {
  of: Candidate[];
  expected: Expected[];
  set: (expected: Expected[]) => void;
}

/** The keys `y` and `n` label a passage and move to the next one. */
export function Labels({ of, expected, set }: Properties) {
  function label(event: KeyboardEvent): void {
    const boxes = [...(event.currentTarget as Element).querySelectorAll("input")];
    const at = boxes.indexOf(event.target as HTMLInputElement);
    const candidate = of[at];
    if (!candidate || (event.key !== "y" && event.key !== "n")) return;
    set(labelled(expected, candidate, event.key === "y"));
    boxes[at + 1]?.focus();
  }
  return (
    <div class="stack tight">
      <p class="fine">{say.labelHint}</p>
      <ol class="passages" aria-label={say.passages} onKeyDown={label}>
        {of.map((each, index) => (
          <li key={index} class="box">
            <label class="row">
              <input
                type="checkbox"
                checked={expected.some((one) => covers(each, one))}
                onChange={(event) => set(labelled(expected, each, event.currentTarget.checked))}
              />
              <PlaceName document={each.document} span={each.span} />
            </label>
            <p class="passage">
              <Stored value={each.text} lines max={SHOWN_CHARACTERS} />
            </p>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** The document of a passage, and its characters. */
export function PlaceName({ document, span }: Omit<Candidate, "text">) {
  return (
    <span>
      <Stored value={document} max={200} /> <span class="fine">{span ? `${span.start}–${span.end}` : say.whole}</span>
    </span>
  );
}
