/** Conversion of unsuccessful responses into errors. */

import { problemClass, type ProblemDetails, type RagstoreError, UnexpectedResponse } from "./errors.js";
import type { FieldError } from "./types.js";

const NO_RAGSTORE = "what responded is no ragstore service: check the URL, its port and its path";

/**
 * The error for an unsuccessful response.
 *
 * @param response the response; its body has been read.
 * @param body the parsed body; a string if it was not JSON, such as a proxy's page.
 * @param call the method and the URL, for the message.
 */
export function errorFrom(response: Response, body: unknown, call: string): RagstoreError {
  const { status, headers } = response;
  if (status < 400) {
    return unexpectedResponse(status, call);
  }
  const members = problemMembers(body);
  if (members.title === undefined && members.code === undefined && (status === 404 || status === 405)) {
    // Each problem document of ragstore has both. FastAPI's has neither, and Chroma's is FastAPI's or empty.
    members.detail = `${call}: HTTP ${status}: ${NO_RAGSTORE}`;
  }
  return new (problemClass(status))({
    ...members,
    status,
    requestId: headers.get("x-request-id") ?? undefined,
    retryAfterMs: retryAfter(headers.get("retry-after")),
  });
}

/** The error for a response that does not match the contract. */
export function unexpectedResponse(status: number, call: string): UnexpectedResponse {
  return new UnexpectedResponse(`${call}: HTTP ${status} without the JSON of the contract: ${NO_RAGSTORE}`, status);
}

function problemMembers(body: unknown): Omit<ProblemDetails, "status"> {
  if (typeof body !== "object" || body === null) {
    return {};
  }
  const { code, type, title, detail, errors, errors_omitted: omitted } = body as Record<string, unknown>;
  return {
    ...(typeof code === "string" && { code }),
    ...(typeof type === "string" && { type }),
    ...(typeof title === "string" && { title }),
    ...(typeof detail === "string" && { detail }),
    ...(Array.isArray(errors) && { errors: errors.map(fieldError) }),
    ...(typeof omitted === "number" && { errorsOmitted: omitted }),
  };
}

function fieldError(error: unknown): FieldError {
  const { path, message } = (error ?? {}) as Record<string, unknown>;
  return {
    ...(error as object | null),
    path: typeof path === "string" ? path : "",
    message: typeof message === "string" ? message : "",
  };
}

/** The value of `Retry-After` in milliseconds. The header has seconds or a date. */
function retryAfter(header: string | null): number | undefined {
  if (header === null) {
    return undefined;
  }
  const milliseconds = /^\s*\d+\s*$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : undefined;
}
