/** Files that are sent into knowledge bases. Sending continues while other screens are shown. */
import { upload } from "../api";
import { asFailure, type Failure } from "../failure";
import { access, whenSignedOut } from "../session";
import { Signal } from "../signal";
import { mark, raw, type Stored } from "../stored";
import { size } from "../words";
import { say } from "./words";

/** Small files are sent together. These are the numbers of `ragstore-gateway kb ingest`. */
const SMALL_BYTES = 256 * 1024;
const GROUP_FILES = 64;
const GROUP_BYTES = 2 * 1024 * 1024;
const CONCURRENT = 3;
const RETRY_SECONDS = 5;
const FULL_SECONDS = 10;
const FULL = "queue_full";

/** Types that the gateway accepts. Other files are recognised by their content and their name. */
const TYPE = /^(text\/(plain|markdown|x-markdown|html|csv|tab-separated-values)|application\/(pdf|vnd\.openxmlformats-.*))$/u;

export interface NewFile {
  /** Its path within what was dropped; it becomes the name of the document. */
  name: string;
  file: File;
}

export interface Rejected extends NewFile {
  reason: Stored;
}

interface Outcome {
  status: string;
  ingestionId?: string;
  code?: string;
  detail?: string;
}

/** The files that are sent into one base. */
export class Uploads {
  /** Grows with each change, so that screens are drawn again. */
  readonly changes = new Signal(0);
  total = 0;
  accepted = 0;
  /** When a file was accepted last, in milliseconds; 0 if none was. */
  acceptedAt = 0;
  bytes = 0;
  sentBytes = 0;
  readonly rejected: Rejected[] = [];
  /** Why nothing is sent until a time. */
  pause: { title: Stored; until: number } | undefined;
  /** The files that were accepted, by name: a document that fails is sent again from them. */
  private readonly files = new Map<string, File>();
  private waiting: NewFile[] = [];
  private readonly inFlight = new Map<AbortController, { files: number; sent: number }>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly base: string) {}

  get isSending(): boolean {
    return this.waiting.length > 0 || this.inFlight.size > 0;
  }

  /** Send files. */
  add(files: NewFile[]): void {
    if (!this.isSending) this.total = this.accepted = this.bytes = this.sentBytes = 0;
    const limit = access.value && "maxDocumentBytes" in access.value.limits ? access.value.limits.maxDocumentBytes : Infinity;
    for (const each of files) {
      if (each.file.size > limit) this.rejected.push({ ...each, reason: mark(say.tooLarge(size(limit))) });
      else this.waiting.push(each);
      this.bytes += each.file.size;
    }
    this.total += files.length;
    this.run();
  }

  /** Whether this page has sent files. */
  get hasFiles(): boolean {
    return this.files.size > 0;
  }

  /** The file of a document, if this page has sent it. */
  fileOf(name: Stored): File | undefined {
    return this.files.get(raw(name));
  }

  /** Send files again that were not accepted. */
  retry(files: Rejected[]): void {
    const again = new Set(files);
    this.forget(files);
    this.add([...again].map(({ name, file }) => ({ name, file })));
  }

  /** Remove files that were not accepted from the list. */
  forget(files: Rejected[]): void {
    const gone = new Set(files);
    const kept = this.rejected.filter((each) => !gone.has(each));
    this.rejected.splice(0, this.rejected.length, ...kept);
    this.changed();
  }

  /** Send nothing more. Accepted files stay accepted. */
  cancel(): void {
    clearTimeout(this.timer);
    this.pause = undefined;
    this.total -= this.waiting.length;
    this.waiting = [];
    for (const [controller, { files }] of this.inFlight) {
      this.total -= files;
      controller.abort();
    }
    this.changed();
  }

  private changed(): void {
    this.changes.value += 1;
  }

  private run(): void {
    while (!this.pause && this.waiting.length > 0 && this.inFlight.size < CONCURRENT) void this.send(this.next());
    this.changed();
  }

  /** The files of the next request. */
  private next(): NewFile[] {
    let bytes = 0;
    let count = 0;
    for (const each of this.waiting) {
      // A form cannot say a quotation mark in a name.
      const isAlone = each.file.size > SMALL_BYTES || each.name.includes('"');
      if (count > 0 && (isAlone || count === GROUP_FILES || bytes + each.file.size > GROUP_BYTES)) break;
      count += 1;
      bytes += each.file.size;
      if (isAlone) break;
    }
    return this.waiting.splice(0, count);
  }

  private async send(group: NewFile[]): Promise<void> {
    const controller = new AbortController();
    const state = { files: group.length, sent: 0 };
    this.inFlight.set(controller, state);
    const readable = await Promise.all(group.map(({ file }) => isReadable(file)));
    group.filter((_, index) => !readable[index]).forEach((each) => this.reject(each, say.unreadable));
    const files = group.filter((_, index) => readable[index]);
    try {
      if (files.length > 0 && !controller.signal.aborted) {
        const outcomes = await request(this.base, files, controller.signal, (sent) => {
          this.sentBytes += sent - state.sent;
          state.sent = sent;
          this.changed();
        });
        outcomes.forEach((outcome, index) => this.note(files[index], outcome));
      }
    } catch (error) {
      if (!controller.signal.aborted) this.failed(files, asFailure(error));
    }
    this.inFlight.delete(controller);
    this.run();
  }

  private note(file: NewFile | undefined, outcome: Outcome): void {
    if (!file) return;
    if (outcome.status === "pending") {
      this.accepted += 1;
      this.acceptedAt = Date.now();
      this.files.set(file.name, file.file);
    } else if (outcome.code === FULL) {
      this.waiting.push(file);
      this.wait(mark(outcome.detail ?? ""), FULL_SECONDS);
    } else {
      this.reject(file, outcome.detail ?? outcome.code ?? "");
    }
  }

  private failed(files: NewFile[], failure: Failure): void {
    if (failure.isTransient) {
      this.waiting.unshift(...files);
      this.wait(failure.title, failure.retryAfter ?? RETRY_SECONDS);
    } else {
      files.forEach((each) => this.reject(each, raw(failure.detail) || raw(failure.title)));
    }
  }

  private reject(file: NewFile, reason: string): void {
    this.rejected.push({ ...file, reason: mark(reason) });
  }

  private wait(title: Stored, seconds: number): void {
    this.pause = { title, until: Date.now() + seconds * 1000 };
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.pause = undefined;
      this.run();
    }, seconds * 1000);
  }
}

async function request(
  base: string,
  files: NewFile[],
  signal: AbortSignal,
  progress: (sent: number) => void,
): Promise<Outcome[]> {
  const [first] = files;
  if (files.length === 1 && first) {
    const query = { documentName: first.name };
    const body = first.file.slice(0, first.file.size, typeOf(first.file));
    const path = "/ragstore/rags/{id}/ingest";
    return [(await upload(path, { path: { id: base }, query }, body, progress, signal)) as Outcome];
  }
  const form = new FormData();
  for (const { name, file } of files) form.append("files", file.slice(0, file.size, typeOf(file)), name);
  const path = "/ragstore/rags/{id}/ingest/batch";
  const response = (await upload(path, { path: { id: base } }, form, progress, signal)) as { documents: Outcome[] };
  return response.documents;
}

const typeOf = (file: File): string => (TYPE.test(file.type) ? file.type : "application/octet-stream");

/** Whether the browser can still read a file. A failed request would not say that. */
async function isReadable(file: File): Promise<boolean> {
  try {
    await file.slice(0, 1).arrayBuffer();
    return true;
  } catch {
    return false;
  }
}

const bases = new Map<string, Uploads>();

/** The files that are sent into a base. */
export function uploadsOf(base: string): Uploads {
  const known = bases.get(base) ?? new Uploads(base);
  bases.set(base, known);
  return known;
}

// The files of a caller are not sent with the key of the next one.
whenSignedOut(() => {
  bases.forEach((each) => each.cancel());
  bases.clear();
});
