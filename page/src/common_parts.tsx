/** Parts of several pages: loading, empty, failed, dialogs. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { Fragment, h, type Child } from "./jsx";
import { asFailure, type Failure } from "./failure";
import type { Resource, Trouble } from "./resource";
import { includes, type Role } from "./session";
import { mark, Stored, raw } from "./stored";
import { timeOf, words } from "./common_words";

/** The field of a filter as JSON. */
export function FilterText({ value, onText }: { value: string; onText: (text: string) => void }) {
  return (
    <textarea
      aria-label={words.filterJson}
      spellcheck={false}
      value={value}
      onInput={(event) => onText(event.currentTarget.value)}
    />
  );
}

/** The form of data that is being loaded. It appears after 150 ms. */
export function Bones({ rows = 6 }: { rows?: number }) {
  return (
    <div class="bones" role="status" aria-label={words.loading}>
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} class="bone" />
      ))}
    </div>
  );
}

/** A part of the page whose code is loaded when it is shown. */
export function Later<P extends object>({ load, properties }: { load: () => Promise<{ default: (properties: P) => VNode }>; properties: P }) {
  const [view, setView] = useState<{ of: (properties: P) => VNode }>();
  const [failure, setFailure] = useState<Failure>();
  useEffect(() => {
    load()
      .then((module) => setView({ of: module.default }))
      .catch((error: unknown) => setFailure(asFailure(error)));
  }, [load]);
  // A failed import is kept by the browser, so that only a new page loads it again.
  if (failure) return <Problem failure={failure} retry={() => location.reload()} />;
  return view ? h(view.of as (properties: never) => VNode, properties) : <Bones />;
}

/** The first link of a page, which moves the focus behind its navigation. */
export function SkipLink() {
  return (
    <a
      class="skip"
      href="#main"
      onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}
    >
      {words.skip}
    </a>
  );
}

/** That there is nothing, and the next step. */
export function Empty({ of: [title, next] }: { of: readonly [string, string] }) {
  return (
    <div class="notice">
      <p class="notice-title">{title}</p>
      {next && <p>{next}</p>}
    </div>
  );
}

/** That there is no screen to show, and the next step. */
export function NoScreen({ of: [title, next] }: { of: readonly [string, string] }) {
  return (
    <div class="screen-head">
      <h1>{title}</h1>
      {next && (
        <p>
          <WithCode of={next} />
        </p>
      )}
    </div>
  );
}

/** Words of the page, in which code stands between backticks. */
export function WithCode({ of }: { of: string }) {
  return <>{of.split("`").map((each, index) => (index % 2 ? <code>{each}</code> : each))}</>;
}

/** The seconds until a time, counted down. */
function useCountdown(until: number | undefined): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (until === undefined) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [until]);
  return until === undefined ? 0 : Math.max(Math.ceil((until - now) / 1000), 0);
}

/** A button that repeats what failed, and the seconds until it is repeated without it. */
function Retry({ nextAt, retry }: { nextAt: number | undefined; retry: () => void }) {
  const seconds = useCountdown(nextAt);
  return (
    <>
      <button type="button" onClick={retry}>
        {words.retry}
      </button>
      {seconds > 0 && (
        <span class="fine" aria-live="off">
          {words.again(seconds)}
        </span>
      )}
    </>
  );
}

/** An error, in the place of what failed. */
export function Problem({ failure, nextAt, retry }: { failure: Failure; nextAt?: number | undefined; retry?: () => void }) {
  return (
    <div class="problem" role="alert">
      <p class="notice-title">
        <Stored value={failure.title} />
      </p>
      <p>
        <Stored value={failure.detail} lines />
      </p>
      {failure.code === "collection_damaged" && <p>{words.damaged}</p>}
      {failure.requestId !== "" && (
        <p class="fine">
          {words.requestId}{" "}
          <code>
            <Stored value={mark(failure.requestId)} />
          </code>
        </p>
      )}
      {retry && (
        <p class="row">
          <Retry nextAt={nextAt} retry={retry} />
        </p>
      )}
    </div>
  );
}

/** That data is old because the service is away. */
export function StaleStrip({ trouble, loadedAt, retry }: { trouble: Trouble; loadedAt: number; retry: () => void }) {
  return (
    <div class="strip" role="alert">
      <span class="strip-title">
        <Stored value={trouble.failure.title} />
      </span>
      <span>{words.staleSince(timeOf(loadedAt))}</span>
      <Retry nextAt={trouble.nextAt} retry={retry} />
    </div>
  );
}

/** Draw data: bones while it is loaded, an error in its place, and old data below a strip. */
export function Loaded<T>({ of, rows, draw }: { of: Resource<T>; rows?: number; draw: (data: T) => Child }) {
  if (of.data === undefined) {
    if (of.trouble) return <Problem failure={of.trouble.failure} nextAt={of.trouble.nextAt} retry={of.reload} />;
    return <Bones rows={rows ?? 6} />;
  }
  return (
    <>
      {of.trouble && <StaleStrip trouble={of.trouble} loadedAt={of.loadedAt} retry={of.reload} />}
      <div class={of.trouble ? "stale" : "fresh"}>{draw(of.data)}</div>
    </>
  );
}

/** A table in a box that scrolls sideways. Its rows are the children. */
export function Table({ label, titles, numbers = [], kind = "", children }: { label: string; titles: string[]; numbers?: string[]; kind?: string; children?: Child }) {
  return (
    <div class={`table-box ${kind}`} role="group" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {titles.map((title) => (
              <th key={title} scope="col" class={numbers.includes(title) ? "n" : ""}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** A button that needs a role: disabled, with the reason, without it. */
export function RoleButton({
  role,
  needs,
  onClick,
  label,
  kind = "",
}: {
  role: Role | undefined;
  needs: Role;
  onClick: () => void;
  label: string;
  kind?: string;
}) {
  const may = includes(role, needs);
  return (
    <span class="role-button">
      <button type="button" class={kind} disabled={!may} onClick={onClick}>
        {label}
      </button>
      {!may && <span class="fine">{words.needsRole(needs)}</span>}
    </span>
  );
}

/** A dialog above the page. Esc closes it, and focus returns to what had it. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children?: Child }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onCancel={close} onClose={close}>
      <h2 id="dialog-title">{title}</h2>
      {children}
    </dialog>
  );
}

/** The attempts of a form or of a button. */
export interface Attempts {
  isRunning: boolean;
  /** Why the last attempt has failed. */
  failure: Failure | undefined;
  /** The failure, drawn. */
  problem: Child;
  /** Run an action, of a form with its event. The promise is fulfilled even if the action fails. */
  run: (action: () => Promise<unknown>, event?: Event) => Promise<void>;
}

export function useAttempts(): Attempts {
  const [isRunning, setRunning] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  return {
    isRunning,
    failure,
    problem: failure && <Problem failure={failure} />,
    run: async (action, event) => {
      event?.preventDefault();
      setRunning(true);
      setFailure(undefined);
      try {
        await action();
      } catch (error) {
        setFailure(asFailure(error));
      }
      setRunning(false);
    },
  };
}

/** The end of a form: why it failed, and its buttons. */
export function FormEnd({
  action,
  kind = "primary",
  isDisabled = false,
  of: { isRunning, problem },
  close,
}: {
  action: string;
  kind?: "primary" | "danger";
  isDisabled?: boolean;
  of: Attempts;
  close: () => void;
}) {
  return (
    <>
      {problem}
      <p class="row">
        <button type="submit" class={kind} disabled={isDisabled || isRunning}>
          {action}
        </button>
        <button type="button" onClick={close}>
          {words.cancel}
        </button>
      </p>
    </>
  );
}

/** A question before something is lost. With `name`, the reader types the name first. */
export function Confirm({
  title,
  question,
  action,
  name,
  run,
  close,
}: {
  title: string;
  question: string;
  action: string;
  name?: Stored;
  run: () => Promise<void>;
  close: () => void;
}) {
  const [typed, setTyped] = useState("");
  const attempts = useAttempts();
  const isConfirmed = name === undefined || typed === raw(name);
  return (
    <Dialog title={title} close={close}>
      <form onSubmit={(event) => void attempts.run(() => run().then(close), event)}>
        <p>{question}</p>
        {name !== undefined && (
          <label class="field">
            <span>
              {words.typeName}: <Stored value={name} />
            </span>
            <input value={typed} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
        )}
        <FormEnd action={action} kind="danger" isDisabled={!isConfirmed} of={attempts} close={close} />
      </form>
    </Dialog>
  );
}

/** A number between 0 and 1 as a bar; the number is beside it. */
export function Bar({ share }: { share: number }) {
  const width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return (
    <span class="bar" aria-hidden="true">
      <span style={{ width }} />
    </span>
  );
}

/** Milliseconds of a response. */
export function Timing({ of }: { of: { name: string; milliseconds: number }[] }) {
  const total = of.find((each) => each.name === "total");
  const backend = of.find((each) => each.name !== "total");
  if (!total || !backend) return null;
  return <span class="fine">{words.took(`${backend.milliseconds} ms`, `${total.milliseconds} ms`)}</span>;
}
