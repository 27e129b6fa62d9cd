/** Conversion of exceptions of `fetch` into errors that say what happened. */

import { ConnectFailed, ConnectionLost, type TransportError } from "./errors.js";

/** System error codes of connections that were never made, and what they mean. The first are Node's, then Bun's. */
const NO_CONNECTION: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ENOTFOUND: "unknown host",
  EAI_AGAIN: "the host name cannot be resolved",
  EHOSTUNREACH: "host unreachable",
  ENETUNREACH: "network unreachable",
  EADDRNOTAVAIL: "address not available",
  UND_ERR_CONNECT_TIMEOUT: "no connection in time",
  ConnectionRefused: "connection refused",
  FailedToOpenSocket: "no connection",
  DNSResolveFailed: "unknown host",
};

/** Codes of connections that broke, and what they mean. */
const BROKEN: Readonly<Record<string, string>> = {
  ECONNRESET: "connection reset",
  EPIPE: "connection closed",
  UND_ERR_SOCKET: "connection closed",
  ConnectionClosed: "connection closed",
};

/** Codes of certificates that were not accepted. A further attempt fails in the same way. */
const CERTIFICATE = /CERT|UNABLE_TO_|SELF_SIGNED|HOSTNAME_MISMATCH|ERR_TLS_CERT_ALTNAME_INVALID/;

/** Codes of handshakes that failed, as with a server that does not speak TLS. Nothing was sent before they ended. */
const HANDSHAKE = /^(?:EPROTO|ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|UNSUPPORTED_PROTOCOL|SSLV3_ALERT_HANDSHAKE_FAILURE|TLSV1_ALERT.*|HTTP_REQUEST))$/;

/** The failure of a request that got no response. */
export interface Failure {
  ErrorClass: typeof TransportError;
  reason: string;
  /** Whether a further attempt would fail in the same way. */
  permanent: boolean;
}

/** Classify an exception of `fetch`. */
export function failureOf(error: unknown): Failure {
  const cause = innermost(error);
  const code = codeOf(cause);
  const message = cause instanceof Error ? cause.message : "";
  if (code in NO_CONNECTION) {
    return { ErrorClass: ConnectFailed, reason: `${NO_CONNECTION[code] ?? code} (${code})`, permanent: false };
  }
  if (CERTIFICATE.test(code) || message.includes("invalid peer certificate")) {
    const reason = `the TLS certificate was not accepted: ${message || code}`;
    return { ErrorClass: ConnectFailed, reason, permanent: true };
  }
  if (HANDSHAKE.test(code)) {
    return { ErrorClass: ConnectFailed, reason: `the TLS handshake failed (${code})`, permanent: true };
  }
  if (message === "bad port") {
    return { ErrorClass: ConnectFailed, reason: "fetch blocks this port", permanent: true };
  }
  // Deno has no codes; it says which part of the client failed.
  if (message.includes("client error (Connect)")) {
    return { ErrorClass: ConnectFailed, reason: denoReason(message), permanent: /certificate|tls/i.test(message) };
  }
  const reason = code in BROKEN ? `${BROKEN[code] ?? code} (${code})` : `the connection broke${code && ` (${code})`}`;
  return { ErrorClass: ConnectionLost, reason, permanent: false };
}

/** `fetch` of Node wraps the system's error, and for a host with several addresses an error for each of them. */
function innermost(error: unknown): unknown {
  let inner = error;
  while (inner instanceof Error && codeOf(inner) === "") {
    const next: unknown = inner instanceof AggregateError ? inner.errors[0] : inner.cause;
    if (next === undefined || next === null) {
      break;
    }
    inner = next;
  }
  return inner;
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === "string" ? code : "";
}

function denoReason(message: string): string {
  const known = /connection refused|dns error|certificate[^(]*|invalid[^(]*/i.exec(message)?.[0] ?? "no connection";
  return known.toLowerCase() === "dns error" ? "unknown host" : known.trim().toLowerCase();
}
