/** Metadata: its pairs as stored strings, and how a value is drawn. */
import { h } from "../jsx";
import { mark, Stored } from "../stored";
import { words } from "../words";

/** The pairs of a metadata object by their keys, which are stored strings, too. Chroma returns them in any order. */
export function pairsOf(metadata: object): [Stored, unknown][] {
  const sorted = Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1));
  return sorted.map(([key, value]) => [mark(key), value as unknown]);
}

/** A value of metadata as text. */
export function valueText(value: unknown): Stored {
  return mark(typeof value === "string" ? value : (JSON.stringify(value) ?? "")) as Stored;
}

/** All pairs of a metadata object. */
export function Pairs({ of }: { of: object }) {
  const pairs = pairsOf(of);
  if (pairs.length === 0) return <p class="fine">{words.noMetadata}</p>;
  return (
    <dl class="pairs">
      {pairs.flatMap(([key, value], index) => [
        <dt key={`k${index}`}>
          <Stored value={key} max={400} />
        </dt>,
        <dd key={`v${index}`}>
          <Stored value={valueText(value)} max={4000} lines />
        </dd>,
      ])}
    </dl>
  );
}

/** A metadata object on one line. */
export function Summary({ of }: { of: object }) {
  const pairs = pairsOf(of).slice(0, 6);
  return (
    <span>
      {pairs.map(([key, value], index) => (
        <span key={index}>
          {index > 0 && " · "}
          <Stored value={key} max={40} /> <Stored value={valueText(value)} max={60} />
        </span>
      ))}
    </span>
  );
}
