/** The passages of a prompt below its reply. */
import { h } from "../jsx";
import { Bar } from "../parts";
import { Stored } from "../stored";
import { scored } from "../words";
import type { Passage } from "./passages";
import type { Open } from "./reply";
import { say } from "./words";

const SHOWN_CHARACTERS = 1500;

interface Properties {
  of: Passage[];
  title: string;
  isOpen: boolean;
  open: Open;
}

export function PassageList({ of, title, isOpen, open }: Properties) {
  return (
    <details open={isOpen}>
      <summary>{title}</summary>
      <ol class="passages asked">
        {of.map((each, index) => (
          <li key={index} class="box">
            <div class="spread">
              <h2>
                [{each.number}] <Stored value={each.title} max={200} />
              </h2>
              <button type="button" aria-label={say.open(each.number)} onClick={() => open(each)}>
                {say.beside}
              </button>
            </div>
            <Facts of={each} />
            <p class="passage">{each.text === undefined ? say.ofCall : <Stored value={each.text} lines max={SHOWN_CHARACTERS} />}</p>
          </li>
        ))}
      </ol>
    </details>
  );
}

/** The base and the score of a passage. */
export function Facts({ of }: { of: Passage }) {
  return (
    <p class="facts">
      <Stored value={of.base} max={200} />
      {of.score !== undefined && (
        <span class="row" title={say.scale}>
          {scored(of.score)} <Bar share={of.score} />
        </span>
      )}
    </p>
  );
}
