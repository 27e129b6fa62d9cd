/** The form that takes a key. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Fragment, h } from "./jsx";
import { signIn } from "./session";
import { mark, Stored } from "./stored";
import { words } from "./common_words";

export function SignInForm({ reason }: { reason: string }) {
  const [key, setKey] = useState("");
  const [isChecking, setChecking] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    if (!key.trim() || isChecking) return;
    setChecking(true);
    await signIn(key.trim());
    setChecking(false);
  }
  return (
    <>
      <p id="sign-in-hint">{words.signInHint}</p>
      <form onSubmit={(event) => void submit(event)}>
        <label class="field">
          <span>{words.key}</span>
          <input
            ref={field}
            type="password"
            name="key"
            autocomplete="current-password"
            aria-describedby="sign-in-hint"
            value={key}
            onInput={(event) => setKey(event.currentTarget.value)}
          />
        </label>
        {reason && (
          <p class="problem" role="alert">
            <Stored value={mark(reason)} />
          </p>
        )}
        <p class="row">
          <button type="submit" class="primary" disabled={isChecking || !key.trim()}>
            {words.signIn}
          </button>
        </p>
      </form>
    </>
  );
}
