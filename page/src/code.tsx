/** Code that a reader copies. */
import { useState } from "preact/hooks";
import { ROOT } from "./api";
import { h } from "./jsx";
import { mark, Stored } from "./stored";
import { words } from "./common_words";

/** The address of the service, without a slash at its end. */
export const SERVICE = ROOT.href.replace(/\/$/u, "");

/** A function that copies a text, and the outcome for the reader. */
export function useCopy(text: string): { copy: () => void; outcome: string } {
  const [outcome, setOutcome] = useState("");
  async function write(): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      setOutcome(words.copied);
    } catch {
      setOutcome(words.copyUnavailable);
    }
  }
  return { copy: () => void write(), outcome };
}

/** Code with a button that copies it. */
export function Code({ title, code }: { title: string; code: string }) {
  const { copy, outcome } = useCopy(code);
  return (
    <section class="stack tight" aria-label={title}>
      <div class="spread">
        <h3>{title}</h3>
        <span class="row">
          <span class="fine" role="status">
            {outcome}
          </span>
          <button type="button" onClick={copy}>
            {words.copy}
          </button>
        </span>
      </div>
      <pre tabIndex={0}>
        <Stored value={mark(code)} lines />
      </pre>
    </section>
  );
}

/** A word for a shell: nothing in it is expanded. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
