/** Documents that a query found, nearest first. */
import { h } from "../jsx";
import { Bar } from "../parts";
import type { components } from "../schema/store";
import { oneLine, Stored, type Marked } from "../stored";
import { scored } from "../words";

export type Match = Marked<components["schemas"]["Match"]>;

export function Matches({ of, scale, open }: { of: Match[]; scale?: string; open: (match: Match) => void }) {
  return (
    <ol class="matches">
      {of.map((match, index) => (
        <li key={index}>
          <button type="button" onClick={() => open(match)}>
            <span class="score" title={scale}>
              {scored(match.score)}
              <Bar share={match.score} />
            </span>
            <span class="of mono">
              <Stored value={match.id} max={200} />
            </span>
            <span class="of fine">
              <Stored value={oneLine(match.text, 200)} />
            </span>
          </button>
        </li>
      ))}
    </ol>
  );
}
