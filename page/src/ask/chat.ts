/** The questions of this tab, and their replies. They are nowhere else, and end with the tab or with the sign-out. */
import { begin, gateway } from "../api";
import { asFailure, Failure, failureIn } from "../failure";
import { whenSignedOut } from "../session";
import { Signal } from "../signal";
import { mark, raw, type Stored } from "../stored";
import { citationsOf, hitsOf, passagesOf, type Citation, type Passage } from "./passages";
import { say } from "./words";

const PATH = "/v1/chat/completions";
const REDRAW_MILLISECONDS = 50;
const MAX_EARLIER = 20;

/** The model or the base that gets a question. */
export type Target = { is: "model"; name: Stored } | { is: "base"; id: string; name: Stored };

export interface Turn {
  question: string;
  target: Target;
  /** The reply so far; empty for a question to a base. */
  text: string;
  state: "running" | "done" | "stopped" | "failed";
  failure?: Failure;
  /** When the question is repeated, in milliseconds. */
  nextAt?: number;
  /** The passages of the prompt; undefined until the end of the reply. */
  passages?: Passage[];
  citations: Citation[];
  /** Why there are no passages. */
  reason: string;
  /** Why the model ended the reply. */
  finish: string;
  /** Id of the request; empty before the response. */
  requestId: string;
}

/** Why there are no passages although the gateway searched, so that the conversation has a step. */
const SEARCHED = ["no_match", "failed", "timeout"];

/** Whether the conversation has a step for a reply. */
export const isRecorded = ({ target, state, requestId, passages, reason }: Turn): boolean =>
  target.is === "model" && state === "done" && requestId !== "" && (Boolean(passages?.length) || SEARCHED.includes(reason));

/** The id of a new conversation. */
const newConversation = (): string => `page-${Array.from(crypto.getRandomValues(new Uint8Array(16)), (each) => each.toString(16).padStart(2, "0")).join("")}`;

interface Part {
  content?: string | null;
  annotations?: Parameters<typeof citationsOf>[0];
  passages?: Parameters<typeof passagesOf>[0];
}

interface Chunk {
  error?: unknown;
  choices?: { delta?: Part; message?: Part; finish_reason?: string | null }[];
  rag?: Part;
}

class Chat {
  /** Grows with each change, so that the screen is drawn again. */
  readonly changes = new Signal(0);
  turns: Turn[] = [];
  /** The question that is being written. */
  draft = "";
  /** The id under which the gateway records the replies. */
  conversation = newConversation();
  private controller: AbortController | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private redraw: ReturnType<typeof setTimeout> | undefined;

  get isRunning(): boolean {
    return this.turns.at(-1)?.state === "running";
  }

  /** Ask a question. */
  ask(question: string, target: Target): void {
    this.draft = "";
    const turn: Turn = { question, target, text: "", state: "running", citations: [], reason: "", finish: "", requestId: "" };
    this.turns = [...this.turns, turn];
    void this.run(turn);
  }

  /** Ask the last question again. */
  retry(): void {
    const last = this.turns.at(-1);
    if (!last) return;
    this.stop();
    this.turns = this.turns.slice(0, -1);
    const { draft } = this;
    this.ask(last.question, last.target);
    this.draft = draft;
  }

  /** End the reply in progress. Its text so far stays. */
  stop(): void {
    clearTimeout(this.timer);
    this.controller?.abort();
    const last = this.turns.at(-1);
    if (last?.state === "running") last.state = "stopped";
    if (last) delete last.nextAt;
    this.changed();
  }

  /** Forget everything. */
  clear(): void {
    this.stop();
    this.turns = [];
    this.draft = "";
    this.conversation = newConversation();
    this.changed();
  }

  private changed(): void {
    clearTimeout(this.redraw);
    this.redraw = undefined;
    this.changes.value += 1;
  }

  /** Draw soon: a stream may have hundreds of parts in a second. */
  private grown(): void {
    this.redraw ??= setTimeout(() => this.changed(), REDRAW_MILLISECONDS);
  }

  private async run(turn: Turn): Promise<void> {
    const controller = new AbortController();
    this.controller = controller;
    this.changed();
    try {
      if (turn.target.is === "base") await this.search(turn, turn.target, controller.signal);
      else await this.reply(turn, turn.target.name, controller.signal);
      if (turn.state === "running") turn.state = "done";
    } catch (error) {
      if (controller.signal.aborted) return;
      turn.state = "failed";
      turn.failure = asFailure(error);
      this.repeatLater(turn, turn.failure);
    }
    if (!controller.signal.aborted) this.changed();
  }

  /** Ask again when the service says so, if it has done nothing yet. */
  private repeatLater(turn: Turn, { status, retryAfter }: Failure): void {
    if ((status !== 429 && status !== 503) || retryAfter === undefined || turn.text) return;
    turn.nextAt = Date.now() + retryAfter * 1000;
    this.timer = setTimeout(() => {
      if (this.turns.at(-1) === turn && turn.state === "failed") this.retry();
    }, retryAfter * 1000);
  }

  private async search(turn: Turn, base: { id: string; name: Stored }, stop: AbortSignal): Promise<void> {
    const { value } = await gateway("post", "/ragstore/rags/{id}/query", {
      path: { id: base.id },
      body: { query: turn.question } as never,
      signal: stop,
    });
    turn.passages = hitsOf(value.results, base);
    turn.reason = turn.passages.length > 0 ? "" : "no_match";
  }

  private async reply(turn: Turn, model: Stored, stop: AbortSignal): Promise<void> {
    const body = { model: raw(model), messages: this.messages(turn), stream: true };
    const headers = { Accept: "text/event-stream, application/json", "X-RAG-Passages": "true", "X-Conversation-Id": this.conversation };
    const response = await begin(PATH, body, headers, stop);
    turn.reason = response.headers.get("X-RAG-Reason") ?? "";
    turn.requestId = response.headers.get("X-Request-ID") ?? "";
    if (!/^text\/event-stream/iu.test(response.headers.get("Content-Type") ?? "")) {
      this.take(turn, JSON.parse(await response.text()) as Chunk);
    } else if (!(await this.read(turn, response)) && !stop.aborted) {
      throw new Failure(mark(say.cut[0]), mark(say.cut[1]));
    }
    turn.passages ??= [];
  }

  /** The conversation so far. A question without a reply is no part of it. */
  private messages(turn: Turn): { role: string; content: string }[] {
    const before = this.turns.slice(0, this.turns.indexOf(turn)).filter((each) => each.target.is === "model" && each.text && each.state !== "failed");
    const messages = before.flatMap((each) => [
      { role: "user", content: each.question },
      { role: "assistant", content: each.text },
    ]);
    return [...messages, { role: "user", content: turn.question }];
  }

  /** The earlier questions of a conversation, up to the limit of a question of a set. */
  earlier(turn: Turn): string[] {
    if (turn.target.is === "base") return [];
    const asked = this.messages(turn).filter((each) => each.role === "user");
    return asked.slice(-1 - MAX_EARLIER, -1).map((each) => each.content);
  }

  /** Read the events of a stream. Whether its end has come. */
  private async read(turn: Turn, response: Response): Promise<boolean> {
    let rest = "";
    let isComplete = false;
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const piece = await reader?.read();
      if (!piece || piece.done) return isComplete;
      const events = (rest + piece.value).split(/\r?\n\r?\n/u);
      rest = events.pop() ?? "";
      for (const event of events) {
        const data = /^data: ?(.*)$/mu.exec(event)?.[1];
        if (data === undefined) continue;
        if (data.trim() === "[DONE]") isComplete = true;
        else this.take(turn, JSON.parse(data) as Chunk);
        isComplete ||= turn.finish !== "";
      }
    }
  }

  private take(turn: Turn, chunk: Chunk): void {
    if (chunk.error) throw failureIn(chunk);
    const [choice] = chunk.choices ?? [];
    const part = choice?.delta ?? choice?.message;
    turn.text += part?.content ?? "";
    turn.finish = choice?.finish_reason ?? turn.finish;
    const passages = part?.passages ?? chunk.rag?.passages;
    if (passages) turn.passages = passagesOf(passages);
    if (part?.annotations && turn.passages) turn.citations = citationsOf(part.annotations, turn.passages);
    this.grown();
  }
}

export const chat = new Chat();

// The questions of a caller are not those of the next one.
whenSignedOut(() => chat.clear());
