/** Code that a reader copies. */
import { useState } from "preact/hooks";
import { ROOT } from "./api";
import { h } from "./jsx";
import { mark, Stored } from "./stored";
import { words } from "./common_words";

/** The address of the service, without a slash at its end. */
export const SERVICE = ROOT.href.replace(/\/$/u, "");

/** Code with a button that copies it. */
export function Code({ title, code }: { title: string; code: string }) {
  const [state, setState] = useState("");
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(code);
      setState(words.copied);
    } catch {
      setState(words.copyUnavailable);
    }
  }
  return (
    <section class="stack tight" aria-label={title}>
      <div class="spread">
        <h3>{title}</h3>
        <span class="row">
          <span class="fine" role="status">
            {state}
          </span>
          <button type="button" onClick={() => void copy()}>
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
