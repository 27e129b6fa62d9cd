/** A response, as far as it is shown. */
import { exchange } from "../api";
import type { Request } from "./request";

export interface Shown {
  status: number;
  statusText: string;
  headers: [string, string][];
  type: string;
  milliseconds: number;
  /** The text so far; undefined if the body is no text. */
  text: string | undefined;
  /** The body that is no text. */
  blob: Blob | undefined;
  /** Bytes that were read. */
  bytes: number;
  isCut: boolean;
  isComplete: boolean;
}

/** The headers of a response that say something about it; the others are of all responses. */
const OF_NOTE = /^(?:allow|content-(?:disposition|encoding|length|range|type)|deprecation|etag|link|location|retry-after|server-timing|vary|www-authenticate|x-(?!content-type-options|frame-options).*)$/u;
const MAX_BYTES = 2_000_000;
const REDRAW_MILLISECONDS = 100;

/** Send a request; `show` gets the response when it begins, while it comes, and at its end. */
export async function receive(method: string, { url, headers, body }: Request, signal: AbortSignal, show: (shown: Shown) => void): Promise<void> {
  const start = performance.now();
  const response = await exchange(method, url, headers, body, signal);
  const type = response.headers.get("Content-Type") ?? "";
  const shown: Shown = {
    status: response.status,
    statusText: response.statusText,
    headers: [...response.headers].filter(([name]) => OF_NOTE.test(name)),
    type,
    milliseconds: Math.round(performance.now() - start),
    text: undefined,
    blob: undefined,
    bytes: 0,
    isCut: false,
    isComplete: false,
  };
  if (!type || /^text\/|json/u.test(type)) {
    await readText(response, shown, show);
  } else {
    show({ ...shown });
    shown.blob = await response.blob();
    shown.bytes = shown.blob.size;
  }
  show({ ...shown, milliseconds: Math.round(performance.now() - start), isComplete: true });
}

async function readText(response: Response, shown: Shown, show: (shown: Shown) => void): Promise<void> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let last = 0;
  shown.text = "";
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    shown.bytes += value.length;
    shown.text += decoder.decode(value, { stream: true });
    if (shown.bytes > MAX_BYTES) {
      shown.isCut = true;
      await reader.cancel();
      break;
    }
    if (performance.now() - last > REDRAW_MILLISECONDS) {
      last = performance.now();
      show({ ...shown });
    }
  }
  shown.text += decoder.decode();
}

/** JSON with line breaks. Its values stay as they are written: a number of many digits is not rounded. */
export function indented(text: string): string {
  let depth = 0;
  const line = (): string => `\n${"  ".repeat(Math.min(depth, 20))}`;
  return text.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/gsu, (token) => {
    if (token.startsWith('"')) return token;
    if (/^\s+$/u.test(token)) return "";
    if (token.length > 1) return token.replace(/\s+/gu, "");
    if (token === ":") return ": ";
    if (token === ",") return `,${line()}`;
    depth += token === "{" || token === "[" ? 1 : -1;
    return token === "{" || token === "[" ? token + line() : line() + token;
  });
}
