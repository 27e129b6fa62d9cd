/** Ingests documents: sends them, small ones together, and waits until searches find them. */

import { bytesToBase64 } from "../embeddings.js";
import { ProblemError, RagstoreError, TooManyRequests } from "../errors.js";
import { sleep } from "../runtime.js";
import { Source } from "../source.js";
import type { CallOptions } from "../types.js";
import { MARKDOWN, nameOf, type NewContent, type OpenDocument, openDocument } from "./contents.js";
import type { GatewayCore } from "./core.js";
import type { DocumentProgress, IngestedDocument } from "./reports.js";
import type { IngestionStatus, Schemas } from "./types.js";

/** Maximum number and size of the documents of one request. */
const MAX_DOCUMENTS = 64;
const MAX_BYTES = 2 * 1024 * 1024;

/** Size of the largest document that is sent together with others. */
const MAX_SMALL_BYTES = 256 * 1024;

/** Additional time for an attempt to send a document, for each `MAX_SMALL_BYTES` of it. */
const TRANSFER_MS = 1000;

/** Delays between two requests for the states of ingestions. The last one repeats. */
const POLL_MS = [50, 100, 200, 400, 800, 1000];

/** Codes of errors of a gateway that accepts the same document later. */
const BUSY_CODES: ReadonlySet<string | undefined> = new Set(["queue_full", "overloaded"]);

/** The delay before a document is sent again to a busy gateway that does not name one. */
const BUSY_DELAY_MS = 1000;
const MIN_BUSY_DELAY_MS = 100;
const MAX_BUSY_DELAY_MS = 30_000;

/** The reason of documents that have not begun, which is not reported. */
const QUEUE = "queue";

/** A source of documents: an array, a generator, a stream. */
export type Contents = Iterable<NewContent> | AsyncIterable<NewContent> | ReadableStream<NewContent>;

/** How documents are ingested. */
export interface IngestionSettings {
  /** Maximum number of requests whose documents are in flight. */
  concurrency: number;
  /** How long documents wait for room in the gateway's queue. */
  busyMs: number;
  onProgress: ((progress: DocumentProgress) => void) | undefined;
  /** The options of its calls. */
  call: CallOptions;
}

/** A document of a request, with its outcome as soon as there is one. */
interface Item {
  name: string;
  /** Absent if it could not be opened. */
  opened?: OpenDocument;
  outcome?: IngestedDocument;
}

type OpenItem = Item & { opened: OpenDocument };

/** A request whose documents are in flight. Its promise never rejects. */
interface PendingRequest {
  items: Item[];
  ended: boolean;
  failure?: { error: unknown };
  done: Promise<void>;
}

/** An ingestion of documents into one knowledge base. */
export class DocumentIngestion {
  readonly #core: GatewayCore;
  readonly #id: string;
  readonly #settings: IngestionSettings;
  readonly #abort = new AbortController();

  constructor(core: GatewayCore, id: string, settings: IngestionSettings) {
    this.#core = core;
    this.#id = id;
    this.#settings = settings;
  }

  /** Ingest documents, and yield the outcome of each, in order. A document that fails does not end the others. */
  async *run(documents: Contents): AsyncGenerator<IngestedDocument, void, undefined> {
    const { signal } = this.#settings.call;
    signal?.throwIfAborted();
    const source = new Source<NewContent>(documents);
    const onAbort = (): void => {
      this.#abort.abort(signal?.reason);
      source.stop();
    };
    signal?.addEventListener("abort", onAbort);
    const order: PendingRequest[] = [];
    try {
      for await (const items of this.#requests(source)) {
        await this.#room(order);
        order.push(this.#start(items));
        while (order[0]?.ended) {
          yield* await this.#next(order);
        }
      }
      while (order.length > 0) {
        yield* await this.#next(order);
      }
      signal?.throwIfAborted();
    } finally {
      signal?.removeEventListener("abort", onAbort);
      this.#abort.abort();
      await source.close();
    }
  }

  /** Wait until another request may be sent. */
  async #room(order: readonly PendingRequest[]): Promise<void> {
    for (;;) {
      const running = order.filter(({ ended }) => !ended);
      if (running.length < this.#settings.concurrency) {
        return;
      }
      await Promise.race(running.map(({ done }) => done));
    }
  }

  #start(items: Item[]): PendingRequest {
    const pending: PendingRequest = { items, ended: false, done: Promise.resolve() };
    pending.done = this.#ingest(items)
      .catch((error: unknown) => {
        pending.failure = { error };
      })
      .finally(() => {
        pending.ended = true;
      });
    return pending;
  }

  /** The outcomes of the oldest request. */
  async #next(order: PendingRequest[]): Promise<IngestedDocument[]> {
    const oldest = order.shift();
    await oldest?.done;
    if (oldest?.failure) {
      throw oldest.failure.error;
    }
    return oldest?.items.flatMap(({ outcome }) => outcome ?? []) ?? [];
  }

  /** Open documents, and divide them into requests. A page is alone, and a large document, too. */
  async *#requests(source: Source<NewContent>): AsyncGenerator<Item[], void, undefined> {
    let together: Item[] = [];
    let bytes = 0;
    for (let next = await source.next(); next.done !== true; next = await source.next()) {
      const item = await this.#open(next.value);
      const size = item.opened?.content?.size ?? 0;
      const isAlone = item.opened !== undefined && (item.opened.content === undefined || size > MAX_SMALL_BYTES);
      if (together.length > 0 && (isAlone || together.length === MAX_DOCUMENTS || bytes + size > MAX_BYTES)) {
        yield together;
        together = [];
        bytes = 0;
      }
      if (isAlone) {
        yield [item];
      } else {
        together.push(item);
        bytes += size;
      }
    }
    if (together.length > 0) {
      yield together;
    }
  }

  /** Open a document. One that cannot be opened has its outcome, so that outcomes stay in order. */
  async #open(document: NewContent): Promise<Item> {
    try {
      const opened = await openDocument(document);
      return { name: opened.name, opened };
    } catch (error) {
      const item: Item = { name: nameOf(document) };
      this.#fail(item, error);
      return item;
    }
  }

  /** Ingest the documents of a request: each has its outcome then. */
  async #ingest(items: readonly Item[]): Promise<void> {
    const waiting = items.filter((item): item is OpenItem => item.opened !== undefined);
    const [first] = waiting;
    try {
      if (items.length > 1) {
        await this.#sendTogether(waiting);
      } else if (first) {
        await this.#sendAlone(first);
      }
    } catch (error) {
      this.#abort.signal.throwIfAborted();
      for (const item of waiting.filter(({ outcome }) => !outcome)) {
        this.#fail(item, error);
      }
    }
  }

  async #sendAlone(item: OpenItem): Promise<void> {
    const { name, mediaType, metadata, content, url } = item.opened;
    const body = content ?? (await this.#readPage(url));
    const { timeoutMs = this.#core.timeoutMs } = this.#settings.call;
    const call = { ...this.#call, timeoutMs: timeoutMs === null ? null : timeoutMs + transferMs(body.size) };
    const query = { documentName: name, ...(metadata && { metadata: JSON.stringify(metadata) }) };
    const params = { path: { id: this.#id }, query };
    const accepted = await this.#whileBusy(() =>
      this.#core.send(
        (api, init) =>
          api.POST("/ragstore/rags/{id}/ingest", {
            ...init,
            params,
            headers: { ...init.headers, "content-type": mediaType },
            body: body as unknown as string,
            bodySerializer: (blob: unknown) => blob,
          }),
        call,
      ),
    );
    await this.#untilEnded(new Map([[accepted.ingestionId, item]]));
  }

  async #readPage(url: string): Promise<Blob> {
    const body = { urls: [url], format: "markdown" as const };
    const { items } = await this.#core.send((api, init) => api.POST("/extract", { ...init, body }), this.#call);
    const [page] = items;
    if (!page?.ok) {
      throw new RagstoreError(page?.error || "the page cannot be read");
    }
    return new Blob([page.text ?? ""], { type: MARKDOWN });
  }

  /** Send documents with one request, and again where the queue had no room. */
  async #sendTogether(items: readonly OpenItem[]): Promise<void> {
    const accepted = new Map<string, Item>();
    const deadline = performance.now() + this.#settings.busyMs;
    let waiting = items;
    while (waiting.length > 0) {
      const lines = await Promise.all(waiting.map(({ opened }) => batchLine(opened)));
      const { documents } = await this.#whileBusy(() => this.#sendBatch(lines.join("")));
      const again: OpenItem[] = [];
      for (const [index, item] of waiting.entries()) {
        const { ingestionId, code = "", detail = "" }: Partial<Schemas["BatchOutcome"]> = documents[index] ?? {};
        if (ingestionId) {
          accepted.set(ingestionId, item);
        } else if (BUSY_CODES.has(code) && performance.now() < deadline) {
          again.push(item);
        } else {
          this.#end(item, { error: detail || code || "rejected", code });
        }
      }
      waiting = again;
      if (waiting.length > 0) {
        await this.#pause(BUSY_DELAY_MS);
      }
    }
    await this.#untilEnded(accepted);
  }

  async #sendBatch(body: string): Promise<Schemas["AcceptedBatch"]> {
    const params = { path: { id: this.#id } };
    return await this.#core.send(
      (api, init) =>
        api.POST("/ragstore/rags/{id}/ingest/batch", {
          ...init,
          params,
          headers: { ...init.headers, "content-type": "application/x-ndjson" },
          body,
          bodySerializer: (lines: unknown) => lines,
        }),
      this.#call,
    );
  }

  /** The result of a call, which is made again while the gateway is busy. */
  async #whileBusy<T>(send: () => Promise<T>): Promise<T> {
    const deadline = performance.now() + this.#settings.busyMs;
    for (;;) {
      try {
        return await send();
      } catch (error) {
        const isBusy = error instanceof ProblemError && (error instanceof TooManyRequests || BUSY_CODES.has(error.code));
        if (!isBusy || performance.now() > deadline) {
          throw error;
        }
        const { retryAfterMs = BUSY_DELAY_MS } = error;
        await this.#pause(Math.min(Math.max(retryAfterMs, MIN_BUSY_DELAY_MS), MAX_BUSY_DELAY_MS));
      }
    }
  }

  /** Wait until ingestions have ended. */
  async #untilEnded(accepted: Map<string, Item>): Promise<void> {
    for (let polls = 0; accepted.size > 0; polls += 1) {
      await this.#pause(POLL_MS[Math.min(polls, POLL_MS.length - 1)] ?? 0);
      const params = { path: { id: this.#id }, query: { ingestionId: [...accepted.keys()] } };
      const progress = await this.#core.send(
        (api, init) => api.GET("/ragstore/rags/{id}/ingestions", { ...init, params }),
        this.#call,
      );
      const reasons = Object.keys(progress.waitingFor).filter((reason) => reason !== QUEUE);
      const waitingFor = reasons.sort().join(", ");
      this.#report({ name: "", share: 0, ended: false, waitingFor });
      for (const state of progress.ingestions) {
        const item = accepted.get(state.ingestionId);
        if (item && ["pending", "processing"].includes(state.status)) {
          this.#report({ name: item.name, share: state.progress, ended: false, waitingFor });
        } else if (item) {
          accepted.delete(state.ingestionId);
          this.#end(item, resultOf(state));
        }
      }
    }
  }

  /** The options of a call: it ends when the ingestion is aborted. */
  get #call(): CallOptions {
    return { ...this.#settings.call, signal: this.#abort.signal };
  }

  async #pause(milliseconds: number): Promise<void> {
    await sleep(milliseconds, this.#abort.signal);
    this.#abort.signal.throwIfAborted();
  }

  #fail(item: Item, error: unknown): void {
    if (!isFailure(error)) {
      throw error;
    }
    const code = error instanceof ProblemError ? (error.code ?? "") : "";
    this.#end(item, { error: error.message || error.name, code });
  }

  #end(item: Item, result: Partial<IngestedDocument>): void {
    item.outcome = { name: item.name, ok: !result.error, chunks: 0, unchanged: false, error: "", code: "", ...result };
    this.#report({ name: item.name, share: 1, ended: true, waitingFor: "" });
  }

  #report(progress: DocumentProgress): void {
    this.#settings.onProgress?.(progress);
  }
}

/** Whether an error is the failure of a document: it comes from the client, or from the file system. */
function isFailure(error: unknown): error is Error {
  return error instanceof RagstoreError || (error instanceof Error && ("errno" in error || error.name === "NotReadableError"));
}

function resultOf({ status, chunks, unchanged }: IngestionStatus): Partial<IngestedDocument> {
  return status === "completed" ? { chunks, unchanged } : { error: status.replace(/^failed: /, "") };
}

function transferMs(bytes: number): number {
  return Math.ceil(bytes / MAX_SMALL_BYTES) * TRANSFER_MS;
}

/** A document as a line of a request with several. */
async function batchLine({ name, mediaType, metadata = {}, content }: OpenDocument): Promise<string> {
  const bytes = new Uint8Array(await (content ?? new Blob()).arrayBuffer());
  return `${JSON.stringify({ documentName: name, contentType: mediaType, content: bytesToBase64(bytes), metadata })}\n`;
}
