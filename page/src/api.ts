/** The calls to the services: typed by their contracts, with a deadline, and with problems as failures. */
import { asFailure, Failure, failureOf } from "./failure";
import type { paths as GatewayPaths } from "./schema/gateway";
import type { paths as StorePaths } from "./schema/store";
import { mark, raw, type Marked, type Stored } from "./stored";
import { words } from "./common_words";

/** The address of the service: the code is in a folder of it, also behind a proxy that adds a prefix. */
export const ROOT = new URL("../", import.meta.url);
const DEADLINE_SECONDS = 40;

let key = "";
let onUnauthorized = (_: Failure): void => undefined;

/** Send a key with each call from now on; empty for none. */
export function useKey(value: string): void {
  key = value;
}

/** Set what happens when a service rejects the key. */
export function whenUnauthorized(action: (failure: Failure) => void): void {
  onUnauthorized = action;
}

type Method = "get" | "post" | "put" | "patch" | "delete";
type Json<Response> = Response extends { content: { "application/json": infer Body } } ? Body : undefined;
type Success<Operation> = Operation extends { responses: infer Responses }
  ? Json<Responses[keyof Responses & (200 | 201 | 202)]>
  : never;
type Body<Operation> = Operation extends { requestBody?: infer Request }
  ? Json<NonNullable<Request>>
  : undefined;
type Query<Operation> = Operation extends { parameters: { query?: infer Parameters } } ? Parameters : never;

interface Options<Operation> {
  path?: Record<string, string | Stored>;
  query?: Query<Operation>;
  body?: Body<Operation>;
  signal?: AbortSignal;
  /** Seconds after which the call fails. */
  seconds?: number;
}

/** A response. */
export interface Reply<T> {
  value: Marked<T>;
  /** The path of what was read or written, with its version, if the service names it. */
  resource: string;
  /** Milliseconds that the service needed, by what it did. */
  timing: { name: string; milliseconds: number }[];
}

type Call<Paths> = <Path extends keyof Paths & string, Verb extends keyof Paths[Path] & Method>(
  method: Verb,
  path: Path,
  options?: Options<Paths[Path][Verb]>,
) => Promise<Reply<Success<Paths[Path][Verb]>>>;

interface Untyped {
  path?: Record<string, string | Stored>;
  query?: Record<string, unknown>;
  body?: unknown;
  signal?: AbortSignal;
  seconds?: number;
  headers?: Record<string, string>;
}

/** Call the store. */
export const store = request as unknown as Call<StorePaths>;

/** Call the gateway. */
export const gateway = request as unknown as Call<GatewayPaths>;

async function request(method: string, path: string, options: Untyped = {}): Promise<Reply<unknown>> {
  const response = await send(method, addressOf(path, options), options);
  try {
    const content = await response.text();
    const value = mark(content ? (JSON.parse(content) as unknown) : undefined);
    return { value, timing: timingOf(response), resource: response.headers.get("X-Resource-URI") ?? "" };
  } catch (error) {
    // The stream was cut, or is no JSON.
    throw asFailure(error);
  }
}

/** The text of a path, such as the metrics. */
export async function text(path: string, signal?: AbortSignal): Promise<string> {
  const response = await send("get", new URL(path.slice(1), ROOT), { signal });
  return response.text().catch((error: unknown) => {
    throw asFailure(error);
  });
}

/** Save a file. */
export function saveFile(content: Blob, name: string): void {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(content);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
}

/** Save the body of a response as a file. There is no deadline: a large one takes its time. */
export async function download(path: string, name: string): Promise<void> {
  const response = await send("get", new URL(path.slice(1), ROOT), { seconds: Infinity });
  const content = await response.blob().catch((error: unknown) => {
    throw asFailure(error);
  });
  saveFile(content, name);
}

/** Begin a response that is read while it comes. There is no deadline: the caller ends it by its signal. */
export function begin(path: string, body: object, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
  return send("post", new URL(path.slice(1), ROOT), { body, headers, signal, seconds: Infinity });
}

async function send(method: string, url: URL, { body, signal, seconds = DEADLINE_SECONDS, headers: given }: Untyped): Promise<Response> {
  const signals = signal ? [signal] : [];
  if (seconds < Infinity) signals.push(AbortSignal.timeout(seconds * 1000));
  const headers: Record<string, string> = { Accept: "application/json", ...given };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const sentKey = key;
  let response: Response;
  try {
    response = await exchange(method, url, headers, body === undefined ? null : JSON.stringify(body), AbortSignal.any(signals));
  } catch (error) {
    if (signal?.aborted) throw error;
    throw asFailure(error);
  }
  if (response.ok) return response;
  const failure = await failureOf(response);
  if (failure.status === 401 && sentKey === key) onUnauthorized(failure);
  throw failure;
}

/** Send a request with the key of the tab, and return the response, whatever its status is. */
export function exchange(
  method: string,
  url: URL,
  headers: Record<string, string>,
  body: BodyInit | null,
  signal: AbortSignal,
): Promise<Response> {
  return fetch(url, {
    method: method.toUpperCase(),
    headers: key ? { ...headers, Authorization: `Bearer ${key}` } : headers,
    body,
    signal,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
  });
}

/**
 * Send files. There is no deadline: a large file takes its time.
 *
 * `progress` is called with the number of bytes that were sent.
 */
export function upload(
  path: string,
  options: { path: Record<string, string>; query?: Record<string, string> },
  body: FormData | Blob,
  progress: (sent: number) => void,
  signal: AbortSignal,
): Promise<unknown> {
  const call = new XMLHttpRequest();
  const sentKey = key;
  call.open("POST", addressOf(path, options));
  call.setRequestHeader("Accept", "application/json");
  if (key) call.setRequestHeader("Authorization", `Bearer ${key}`);
  return new Promise((resolve, reject) => {
    call.upload.onprogress = (event) => progress(event.loaded);
    call.onerror = () => reject(asFailure(undefined));
    call.onabort = () => reject(asFailure(undefined));
    call.onload = () => {
      if (call.status < 300) {
        try {
          resolve(JSON.parse(call.responseText));
        } catch (error) {
          reject(asFailure(error));
        }
        return;
      }
      const names = ["X-Request-ID", "Retry-After"];
      const headers = names.map((name): [string, string] => [name, call.getResponseHeader(name) ?? ""]);
      void failureOf(new Response(call.responseText, { status: call.status, headers })).then((failure) => {
        if (failure.status === 401 && sentKey === key) onUnauthorized(failure);
        reject(failure);
      });
    };
    signal.addEventListener("abort", () => call.abort());
    call.send(body);
  });
}

/** The address of a call. */
export function addressOf(path: string, { path: names = {}, query = {} }: Untyped): URL {
  const filled = path.replace(/\{(\w+)\}/gu, (_, name: string) => {
    const value = names[name] ?? "";
    const segment = typeof value === "string" ? value : raw(value);
    // A URL would drop these segments, and the call would be another one.
    if (segment === "." || segment === ".." || segment === "") {
      throw new Failure(mark(words.noSuchName[0]), mark(words.noSuchName[1]), 404);
    }
    return encodeURIComponent(segment);
  });
  const url = new URL(filled.slice(1), ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    for (const each of Array.isArray(value) ? (value as unknown[]) : [value]) {
      url.searchParams.append(name, typeof each === "string" ? each : JSON.stringify(each));
    }
  }
  return url;
}

function timingOf(response: Response): { name: string; milliseconds: number }[] {
  const header = response.headers.get("Server-Timing") ?? "";
  return [...header.matchAll(/([\w-]+);dur=([\d.]+)/gu)].map(([, name = "", duration]) => ({
    name,
    milliseconds: Number(duration),
  }));
}
