/** The form "Split differently". Nothing is stored. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import type { Failure } from "../failure";
import { Problem } from "../parts";
import type { Base, Chunking } from "./calls";
import { say } from "./words";

const STRATEGIES = ["recursive", "window", "sentence", "paragraph", "markdown", "layers"];
const UNITS = ["characters", "tokens"];

export function ChunkingForm({ base, split, failure }: { base: Base; split: (as: Chunking) => void; failure: Failure | undefined }) {
  const { body } = base;
  const [strategy, setStrategy] = useState<string>(body.chunkStrategy ?? "recursive");
  const [size, setSize] = useState(String(body.chunkSize));
  const [overlap, setOverlap] = useState(String(body.chunkOverlap));
  const [unit, setUnit] = useState<string>(body.chunkUnit ?? "characters");
  function submit(event: Event): void {
    event.preventDefault();
    split({ chunkStrategy: strategy, chunkSize: Number(size), chunkOverlap: Number(overlap), chunkUnit: unit });
  }
  return (
    <form class="box" onSubmit={submit} aria-label={say.splitDifferently}>
      <p class="fine">{say.splitHint}</p>
      <div class="form-row">
        <Choice label={say.strategy} values={STRATEGIES} value={strategy} set={setStrategy} />
        <Count label={say.chunkSize} min={1} value={size} set={setSize} />
        <Count label={say.overlap} min={0} value={overlap} set={setOverlap} />
        <Choice label={say.unit} values={UNITS} value={unit} set={setUnit} />
        <button type="submit" class="primary">
          {say.splitAction}
        </button>
      </div>
      {failure && <Problem failure={failure} />}
    </form>
  );
}

function Choice({ label, values, value, set }: { label: string; values: string[]; value: string; set: (to: string) => void }) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => set(event.currentTarget.value)}>
        {values.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  );
}

function Count({ label, min, value, set }: { label: string; min: number; value: string; set: (to: string) => void }) {
  return (
    <label class="field">
      <span>{label}</span>
      <input type="number" min={min} max={100_000} required value={value} onInput={(event) => set(event.currentTarget.value)} />
    </label>
  );
}
