/** `Failure`: why a call failed, for people and for decisions. */
import { mark, raw, type Stored } from "./stored";
import { words } from "./common_words";

export class Failure extends Error {
  constructor(
    /** The kind of error, for people. */
    readonly title: Stored,
    /** The reason, for people. */
    readonly detail: Stored = mark<string>(""),
    /** The status of the response; 0 without one. */
    readonly status = 0,
    /** The code of the problem; empty without one. */
    readonly code = "",
    readonly requestId = "",
    /** Seconds after which the call may be repeated; undefined if the service does not say. */
    readonly retryAfter: number | undefined = undefined,
    /** The body of the response, if it is JSON. */
    readonly body: unknown = undefined,
  ) {
    super(raw(title));
  }

  /** Whether the same call may succeed later. */
  get isTransient(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 502;
  }

  /** Whether the service, or the store behind it, does not respond. */
  get isAway(): boolean {
    return this.status === 0 || this.status === 503 || this.status === 504;
  }
}

/** The failure of a response that is no success. */
export async function failureOf(response: Response): Promise<Failure> {
  const requestId = response.headers.get("X-Request-ID") ?? "";
  const wait = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  const text = await response.text().catch(() => "");
  let problem: Problem = {};
  try {
    problem = JSON.parse(text) as Problem;
  } catch {
    // A proxy responded, or the response was cut.
  }
  const { title = words.unexpectedStatus(response.status), detail = "", code = "" } = fieldsOf(problem);
  const retryAfter = Number.isNaN(wait) ? undefined : wait;
  return new Failure(mark(title), mark(detail), response.status, code, requestId, retryAfter, problem);
}

interface Problem {
  title?: unknown;
  detail?: unknown;
  code?: unknown;
  /** OpenAI's form, of all paths below `/v1`. */
  error?: { message?: unknown; code?: unknown };
}

/** The strings of a problem. OpenAI's form has no title; the codes of the gateway are made from titles. */
function fieldsOf(problem: Problem | null): { title?: string; detail?: string; code?: string } {
  const error = problem?.error;
  const [title, detail, code] = error ? [titleOf(error.code), error.message, error.code] : [problem?.title, problem?.detail, problem?.code];
  return {
    ...(typeof title === "string" && { title }),
    ...(typeof detail === "string" && { detail }),
    ...(typeof code === "string" && { code }),
  };
}

function titleOf(code: unknown): string | undefined {
  if (typeof code !== "string" || !code) return undefined;
  return code.charAt(0).toUpperCase() + code.slice(1).replaceAll("_", " ");
}

/** The failure that an event of a stream describes. */
export function failureIn(problem: object): Failure {
  const { title = words.failed, detail = "", code = "" } = fieldsOf(problem);
  return new Failure(mark(title), mark(detail), 200, code);
}

/** Any error of a call as a failure. */
export function asFailure(error: unknown): Failure {
  if (error instanceof Failure) return error;
  const isTimeout = error instanceof DOMException && error.name === "TimeoutError";
  const [title, detail] = isTimeout ? words.timeout : words.noResponse;
  return new Failure(mark(title), mark(detail));
}
