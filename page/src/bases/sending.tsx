/** The files that are sent into a base: where they are dropped, one progress, and those that were not accepted. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Fragment, h } from "../jsx";
import { asFailure } from "../failure";
import { access, gatewayRole, includes } from "../session";
import { mark, raw, Stored } from "../stored";
import { size, words } from "../words";
import { readFailed } from "./calls";
import { chosenFiles, droppedFiles, type Dropped } from "./dropped";
import { uploadsOf, type Uploads } from "./uploads";
import { say } from "./words";

const SHOWN = 20;

interface Properties {
  base: string;
  /** Number of documents that are not ingested yet. */
  unfinished: number;
  /** Whether the numbers were read after the last file was accepted. */
  isCurrent: boolean;
  /** Number of documents whose ingestion has failed. */
  failed: number;
  cancel: () => void;
}

export function Sending({ base, unfinished, isCurrent, failed, cancel }: Properties) {
  const uploads = uploadsOf(base);
  void uploads.changes.value;
  const [note, setNote] = useState("");
  const [isOver, setOver] = useState(false);
  const may = includes(gatewayRole.value, "writer");

  function add({ files, hidden }: Dropped): void {
    setNote([files.length === 0 && say.noFiles, hidden > 0 && say.hiddenLeftOut(hidden)].filter(Boolean).join(". "));
    if (files.length > 0) uploads.add(files);
  }

  function drop(event: DragEvent): void {
    event.preventDefault();
    setOver(false);
    if (may && event.dataTransfer) void droppedFiles(event.dataTransfer).then(add);
  }

  async function retryFailed(): Promise<void> {
    try {
      const names = await readFailed(base);
      const found = names.flatMap((name) => {
        const file = uploads.fileOf(name);
        return file ? [{ name: raw(name), file }] : [];
      });
      uploads.add(found);
      setNote(say.retried(found.length, names.length - found.length));
    } catch (error) {
      setNote(raw(asFailure(error).title));
    }
  }

  return (
    <section
      class={isOver ? "box drop over" : "box drop"}
      aria-label={say.add}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(may);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <div class="row">
        <Choose label={say.addFiles} may={may} add={add} />
        <Choose label={say.addFolder} may={may} add={add} folder />
        <span class="fine">{may ? say.dropHint : words.needsRole("writer")}</span>
      </div>
      {may && <Formats />}
      {note && (
        <p class="fine" role="status">
          <Stored value={mark(note)} />
        </p>
      )}
      <Progress uploads={uploads} unfinished={unfinished} isCurrent={isCurrent} cancel={cancel} may={may} />
      {uploads.rejected.length > 0 && <Rejected uploads={uploads} />}
      {may && failed > 0 && uploads.hasFiles && (
        <p class="row">
          <button type="button" onClick={() => void retryFailed()}>
            {say.retryFailed}
          </button>
        </p>
      )}
    </section>
  );
}

function Formats() {
  const found = access.value;
  if (!found || !("formats" in found)) return null;
  return (
    <p class="fine">
      <Stored value={mark(say.formats(found.formats.map((each) => each as unknown as string).join(" ")))} />
    </p>
  );
}

/** A button that opens the browser's choice of files. */
function Choose({ label, may, add, folder }: { label: string; may: boolean; add: (found: Dropped) => void; folder?: boolean }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (folder) input.current?.setAttribute("webkitdirectory", "");
  }, [folder]);
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label={label}
        onChange={(event) => {
          if (event.currentTarget.files) add(chosenFiles(event.currentTarget.files));
          event.currentTarget.value = "";
        }}
      />
      <button type="button" disabled={!may} onClick={() => input.current?.click()}>
        {label}
      </button>
    </>
  );
}

interface ProgressProperties extends Pick<Properties, "unfinished" | "isCurrent" | "cancel"> {
  uploads: Uploads;
  may: boolean;
}

function Progress({ uploads, unfinished, isCurrent, cancel, may }: ProgressProperties) {
  const [wasBusy, setBusy] = useState(false);
  const isBusy = uploads.isSending || unfinished > 0 || !isCurrent;
  useEffect(() => {
    if (isBusy) setBusy(true);
  }, [isBusy]);
  if (!isBusy) return wasBusy ? <p role="status">✓ {say.allIngested}</p> : null;
  const sent = uploads.accepted + uploads.rejected.length;
  const ingested = isCurrent ? Math.max(uploads.total - unfinished, 0) : 0;
  const done = uploads.isSending ? sent : ingested;
  return (
    <div class="stack tight">
      {uploads.total > 0 && (
        <progress max={Math.max(uploads.total, 1)} value={Math.min(done, uploads.total)} aria-label={say.add} />
      )}
      <div class="spread">
        <p class="row" role="status">
          {uploads.isSending && (
            <span>
              {say.sending(sent, uploads.total)}, {say.sentBytes(size(uploads.sentBytes), size(uploads.bytes))}
            </span>
          )}
          {unfinished > 0 && <span>{say.ingesting(unfinished)}</span>}
          <span class="fine">{say.refresh}</span>
        </p>
        {may && (
          <button type="button" onClick={cancel}>
            {say.cancelAll}
          </button>
        )}
      </div>
      {uploads.pause && <Pause of={uploads.pause} />}
    </div>
  );
}

function Pause({ of }: { of: { title: Stored; until: number } }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(Math.ceil((of.until - now) / 1000), 0);
  return (
    <p class="message" role="alert">
      <Stored value={of.title} />. {say.continues(seconds)}
    </p>
  );
}

function Rejected({ uploads }: { uploads: Uploads }) {
  const { rejected } = uploads;
  return (
    <div class="stack tight" role="alert">
      <div class="spread">
        <p class="state-bad">✗ {say.notSent(rejected.length)}</p>
        <span class="row">
          <button type="button" onClick={() => uploads.retry([...rejected])}>
            {say.retryAll}
          </button>
          <button type="button" onClick={() => uploads.forget([...rejected])}>
            {say.dismiss}
          </button>
        </span>
      </div>
      <ul class="rejected">
        {rejected.slice(0, SHOWN).map((each, index) => (
          <li key={index}>
            <Stored value={mark(each.name)} max={300} />
            <span class="fine">
              {" "}
              <Stored value={each.reason} max={400} />
            </span>
          </li>
        ))}
        {rejected.length > SHOWN && <li class="fine">{say.more(rejected.length - SHOWN)}</li>}
      </ul>
    </div>
  );
}
