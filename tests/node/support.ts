/** Helpers of the tests: vectors, documents, temporary collections, and HTTP servers with scripted responses. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { randomUUID } from "node:crypto";

import type { Client, NewDocument } from "@ragstore/client";

export const DIMENSION = 384;

/** The URL of a service from an environment variable. */
export function serviceUrl(variable: string): string {
  const url = process.env[variable];
  if (!url) {
    throw new Error(`${variable} must be set`);
  }
  return url;
}

/** A deterministic vector. */
export function vector(seed: number, dimension = DIMENSION): Float32Array {
  let state = seed * 2654435761 + 1;
  return Float32Array.from({ length: dimension }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

export function document(number: number, dimension = DIMENSION): NewDocument {
  return {
    id: `handbook:chunk:${number}`,
    text: `Passage ${number} of the handbook.`,
    embedding: vector(number, dimension),
    metadata: { layer: number % 5 === 0 ? "section" : "chunk", page_number: number % 100, draft: number % 2 === 0 },
  };
}

export function* documents(count: number, dimension = DIMENSION): Generator<NewDocument> {
  for (let number = 0; number < count; number++) {
    yield document(number, dimension);
  }
}

/** Run a function with a new collection, and delete it. */
export async function withCollection<T>(client: Client, use: (name: string) => Promise<T>): Promise<T> {
  const { name } = await client.createCollection(`node-${randomUUID()}`);
  try {
    return await use(name);
  } finally {
    await client.deleteCollection(name);
  }
}

export interface Received {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  body: string;
}

type Handler = (request: Received, response: ServerResponse, number: number) => void;

/** Run a function with a server whose responses a handler sends, and close it. */
export async function withServer<T>(
  handler: Handler,
  use: (url: string, received: Received[]) => Promise<T>,
): Promise<T> {
  const received: Received[] = [];
  const server = createServer((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      const request = {
        method: incoming.method ?? "",
        url: incoming.url ?? "",
        headers: incoming.headers,
        body: Buffer.concat(chunks).toString(),
      };
      received.push(request);
      handler(request, response, received.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, received);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

export function reply(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  const type = status < 400 ? "application/json" : "application/problem+json";
  response.writeHead(status, { "content-type": type, ...headers });
  response.end(JSON.stringify(body));
}

/** Respond with a problem document. */
export function sendProblem(
  response: ServerResponse,
  status: number,
  headers: Record<string, string> = {},
  members: object = {},
): void {
  const body = { type: "about:blank", title: "Rejected", status, detail: `rejected with ${status}`, ...members };
  reply(response, status, body, headers);
}

/** The ids of the documents in a request. */
export function idsOf(request: Received): string[] {
  const body = JSON.parse(request.body) as { documents: { id: string }[] };
  return body.documents.map(({ id }) => id);
}

/** The error that a promise rejects with. */
export async function rejection<E extends Error>(
  promise: Promise<unknown>,
  kind: abstract new (...args: never[]) => E,
): Promise<E> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof kind) {
      return error;
    }
    throw error;
  }
  throw new Error(`did not reject with ${kind.name}`);
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const item of items) {
    collected.push(item);
  }
  return collected;
}

/** A URL without a server. */
export async function closedUrl(): Promise<string> {
  return await withServer(
    () => undefined,
    (url) => Promise.resolve(url),
  );
}
