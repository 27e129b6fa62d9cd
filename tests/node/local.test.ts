/** The client against servers with scripted responses. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import {
  Base64,
  BadGateway,
  CallTimeout,
  Client,
  Conflict,
  ConnectFailed,
  ConnectionLost,
  Forbidden,
  GatewayTimeout,
  InvalidConfiguration,
  InvalidInput,
  BadRequest,
  type NewDocument,
  NotFound,
  PayloadTooLarge,
  ProblemError,
  RagstoreError,
  RequestTimeout,
  ServerError,
  toBase64,
  toFloat32,
  TooManyRequests,
  Unauthorized,
  Unavailable,
  UnexpectedResponse,
  UnsupportedMediaType,
} from "@ragstore/client";

import { closedUrl, collect, documents, idsOf, sendProblem, rejection, reply, vector, withServer } from "./support.js";

const QUICK = { retries: { baseMs: 1 } };
const COLLECTION = { name: "abc", metadata: {}, count: 0, dimension: null, distance: "cosine" };
const WRITTEN = { status: "upserted", collection: "abc", count: 0, ids: [] };
const UNUSED_URL = "http://127.0.0.1:1";

describe("embeddings", () => {
  test("are sent as base64 of little-endian float32", () => {
    const expected = "zczMPc3MTD6amZk+";
    assert.equal(toBase64([0.1, 0.2, 0.3]), expected);
    assert.equal(toBase64(Float32Array.of(0.1, 0.2, 0.3)), expected);
    assert.equal(toBase64(Float64Array.of(0.1, 0.2, 0.3)), expected);
    assert.equal(toBase64(new Base64(expected)), expected);
    assert.deepEqual(toFloat32(new Base64(expected)), Float32Array.of(0.1, 0.2, 0.3));
  });

  test("of a view are only the view's values", () => {
    assert.equal(toBase64(Float32Array.of(9, 0.1, 0.2, 0.3, 9).subarray(1, 4)), "zczMPc3MTD6amZk+");
  });

  test("that are not finite numbers are rejected", () => {
    for (const wrong of [[], new Float32Array(), [null], ["1"], [[1]], {}, null, [NaN], [1e39]]) {
      assert.throws(() => toBase64(wrong as number[]), InvalidInput);
    }
  });

  test("that are a text are rejected with what to do", () => {
    assert.throws(() => toBase64("where is the heating" as unknown as number[]), /searches vectors; embed the text first/);
    for (const wrong of ["where is the heating", "", "AAAA", "AACAPw", 5]) {
      assert.throws(() => new Base64(wrong as string), InvalidInput);
    }
  });

  test("are the same without Node's Buffer, as in browsers", () => {
    // The runtimes' tests run the whole client without it; this one compares all bytes.
    const values = vector(3, 3000);
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    assert.equal(toBase64(values), btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")));
  });
});

describe("problems", () => {
  const classes = [
    [400, BadRequest],
    [401, Unauthorized],
    [403, Forbidden],
    [404, NotFound],
    [408, RequestTimeout],
    [409, Conflict],
    [413, PayloadTooLarge],
    [415, UnsupportedMediaType],
    [418, ProblemError],
    [429, TooManyRequests],
    [500, ServerError],
    [502, BadGateway],
    [503, Unavailable],
    [504, GatewayTimeout],
  ] as const;
  for (const [status, kind] of classes) {
    test(`${status} is ${kind.name}`, async () => {
      const errors = [{ path: "$.documents[0].text", message: "must be a string" }];
      await withServer(
        (_, response) => {
          sendProblem(response, status, { "x-request-id": "r1", "retry-after": "7" }, { code: "a_code", errors });
        },
        async (url) => {
          const client = new Client(url, { retries: { attempts: 1 } });
          const error = await rejection(client.getCollection("abc"), kind);
          assert.equal(error.constructor, kind);
          assert.ok(error instanceof ProblemError && error instanceof RagstoreError);
          const { name, code, message, title, detail, requestId, retryAfterMs } = error;
          assert.deepEqual(
            { name, status: error.status, code, message, title, detail, errors: error.errors, requestId, retryAfterMs },
            {
              name: kind.name,
              status,
              code: "a_code",
              message: `rejected with ${status}`,
              title: "Rejected",
              detail: `rejected with ${status}`,
              errors,
              requestId: "r1",
              retryAfterMs: 7000,
            },
          );
        },
      );
    });
  }

  test("a proxy's page has a status and no code", async () => {
    await withServer(
      (_, response) => response.writeHead(503, { "content-type": "text/html" }).end("<h1>Away</h1>"),
      async (url) => {
        const error = await rejection(new Client(url, { retries: { attempts: 1 } }).health(), Unavailable);
        assert.deepEqual([error.detail, error.code], ["", undefined]);
      },
    );
  });

  test("a response that does not match the contract is an UnexpectedResponse", async () => {
    const wrong = [
      [200, "<h1>Welcome</h1>"],
      [200, '"text"'],
      [204, ""],
      [302, ""],
    ] as const;
    for (const [status, body] of wrong) {
      await withServer(
        (_, response) => response.writeHead(status, { location: "/elsewhere" }).end(body),
        async (url, received) => {
          const error = await rejection(new Client(url).getCollection("abc"), UnexpectedResponse);
          assert.deepEqual([error.status, received.length], [status, 1]);
        },
      );
    }
  });
});

describe("requests", () => {
  test("have the key and additional headers", async () => {
    await withServer(
      (_, response) => {
        reply(response, 200, COLLECTION);
      },
      async (url, received) => {
        await new Client(`${url}/behind/a/proxy/`, { apiKey: "k1", headers: { "X-Request-ID": "r1" } }).getCollection(
          "abc",
        );
        const seen = received.map(({ method, url: path, headers }) => [
          method,
          path,
          headers.authorization,
          headers["x-request-id"],
          headers.accept,
        ]);
        assert.deepEqual(seen, [["GET", "/behind/a/proxy/collections/abc", "Bearer k1", "r1", "application/json"]]);
      },
    );
  });

  test("that cannot be sent are rejected without repeating the key", async () => {
    for (const url of ["", "ftp://a", "http://user:secret@a/?b=c", "http://a/#b", 5]) {
      assert.throws(
        () => new Client(url as string),
        (error: Error) => error instanceof InvalidConfiguration && !error.message.includes("secret"),
      );
    }
    assert.throws(
      () => new Client(UNUSED_URL, { apiKey: "sec\nret" }),
      (error: Error) => error instanceof InvalidConfiguration && !error.message.includes("ret"),
    );
    assert.throws(
      () => new Client(UNUSED_URL, { headers: { "x-token": "sec\nret" } }),
      (error: Error) => error instanceof InvalidInput && !error.message.includes("ret"),
    );
    const client = new Client(UNUSED_URL);
    await rejection(client.getCollection(".."), InvalidInput);
    await rejection(client.getDocument("abc", ""), InvalidInput);
    await rejection(client.getDocument("abc", "\ud800"), InvalidInput);
    await rejection(client.updateCollectionMetadata("abc", { edition: Number.NaN }), InvalidInput);
    const made = { id: "a", text: "x", embedding: [1], metadata: { sizes: [1, Number.POSITIVE_INFINITY] } };
    const error = await rejection(client.upsertDocuments("abc", [made]), InvalidInput);
    assert.equal(error.message, "a number must be finite: $.documents[0].metadata.sizes[1]");
  });
});

describe("retries", () => {
  test("a busy service is retried after Retry-After", async () => {
    const times: number[] = [];
    await withServer(
      (_, response, number) => {
        times.push(performance.now());
        if (number === 1) {
          sendProblem(response, 503, { "retry-after": "1" });
        } else {
          reply(response, 200, COLLECTION);
        }
      },
      async (url) => {
        assert.equal((await new Client(url, QUICK).getCollection("abc")).name, "abc");
        const [first = 0, second = 0] = times;
        assert.ok(second - first >= 990, `retried after ${second - first} ms`);
      },
    );
  });

  test("a Retry-After beyond the budget prevents a retry", async () => {
    await withServer(
      (_, response) => {
        sendProblem(response, 503, { "retry-after": "60" });
      },
      async (url, received) => {
        await rejection(new Client(url).getCollection("abc"), Unavailable);
        assert.equal(received.length, 1);
      },
    );
  });

  const retried: [string, (client: Client) => Promise<unknown>][] = [
    ["GET", (client) => client.listDocuments("abc")],
    ["PUT", (client) => client.upsertDocuments("abc", documents(1, 2))],
    ["DELETE", (client) => client.emptyCollection("abc")],
    ["POST filter", (client) => client.listDocuments("abc", { where: { layer: "chunk" } })],
    ["POST delete", (client) => client.deleteDocuments("abc", { ids: ["a"] })],
    ["POST query", (client) => client.query("abc", [1])],
    ["POST query over several", (client) => client.queryCollections(["abc"], [1])],
    ["POST with getOrCreate", (client) => client.createCollection("abc", { getOrCreate: true })],
  ];
  for (const [what, call] of retried) {
    test(`${what} is sent four times`, async () => {
      await withServer(
        (_, response, number) => {
          if (number === 1) {
            response.destroy();
          } else {
            sendProblem(response, 501 + number);
          }
        },
        async (url, received) => {
          const error = await rejection(call(new Client(url, QUICK)), RagstoreError);
          // The connection is destroyed, then 503, 504, and 505, which is final.
          assert.equal(error.constructor, ServerError);
          assert.equal(received.length, 4);
        },
      );
    });
  }

  const once: [string, (client: Client) => Promise<unknown>][] = [
    ["add", (client) => client.addDocuments("abc", documents(1, 2))],
    ["create", (client) => client.createCollection("abc")],
  ];
  for (const [what, call] of once) {
    test(`${what} is not retried if it may have been applied`, async () => {
      await withServer(
        (_, response) => {
          sendProblem(response, 503);
        },
        async (url, received) => {
          await rejection(call(new Client(url, QUICK)), Unavailable);
          assert.equal(received.length, 1);
        },
      );
      await withServer(
        (_, response) => {
          response.destroy();
        },
        async (url, received) => {
          await rejection(call(new Client(url, QUICK)), ConnectionLost);
          assert.equal(received.length, 1);
        },
      );
    });

    test(`${what} is retried if it cannot have been applied`, async () => {
      await withServer(
        (_, response, number) => {
          if (number < 3) {
            sendProblem(response, number === 1 ? 408 : 429);
          } else {
            reply(response, 201, WRITTEN);
          }
        },
        async (url, received) => {
          await call(new Client(url, QUICK));
          assert.equal(received.length, 3);
        },
      );
      let attempts = 0;
      const counting = (request: Request): Promise<Response> => {
        attempts += 1;
        return fetch(request);
      };
      await rejection(call(new Client(await closedUrl(), { ...QUICK, fetch: counting })), ConnectFailed);
      assert.equal(attempts, 4);
    });
  }

  test("a collection that an earlier attempt deleted is deleted", async () => {
    await withServer(
      (_, response, number) => {
        sendProblem(response, number === 1 ? 504 : 404);
      },
      async (url) => {
        assert.deepEqual(await new Client(url, QUICK).deleteCollection("abc"), { status: "deleted", name: "abc" });
      },
    );
  });

  test("a failed connection is a ConnectFailed", async () => {
    const url = await closedUrl();
    const error = await rejection(new Client(url, { retries: 0 }).info(), ConnectFailed);
    assert.equal(error.message, `GET ${url}/: connection refused (ECONNREFUSED)`);
  });

  test("a missing response, and an incomplete one, are a CallTimeout", async () => {
    for (const started of [false, true]) {
      await withServer(
        (_, response) => {
          if (started) {
            response.writeHead(200, { "content-type": "application/json" }).write('{"name":');
          }
        },
        async (url) => {
          const client = new Client(url, { timeoutMs: 60, retries: { attempts: 2, baseMs: 1 } });
          const error = await rejection(client.getCollection("abc"), CallTimeout);
          assert.equal(error.attempts, 2);
        },
      );
    }
  });

  test("the caller's signal aborts an attempt, and the delay between attempts", async () => {
    for (const responds of [false, true]) {
      await withServer(
        (_, response) => {
          if (responds) {
            sendProblem(response, 503, { "retry-after": "20" });
          }
        },
        async (url) => {
          const started = performance.now();
          const signal = AbortSignal.timeout(80);
          const error = await rejection(new Client(url).getCollection("abc", { signal }), DOMException);
          assert.equal(error.name, "TimeoutError");
          assert.ok(performance.now() - started < 5000);
        },
      );
    }
  });
});

describe("ingestion", () => {
  test("the source is not read while the maximum number of requests is in flight", async () => {
    const held: (() => void)[] = [];
    await withServer(
      (_, response) => {
        held.push(() => {
          reply(response, 200, WRITTEN);
        });
      },
      async (url) => {
        let pulled = 0;
        function* source(): Generator<NewDocument> {
          for (const made of documents(100, 2)) {
            pulled += 1;
            yield made;
          }
        }
        const ended = new Client(url).ingestAll("abc", source(), { concurrency: 2, batchDocuments: 10 });
        for (let answered = 0; answered < 10; answered++) {
          while (held.length === 0 || (held.length < 2 && answered < 9)) {
            await sleep(1);
          }
          await sleep(10);
          assert.equal(pulled, Math.min(100, (answered + 2) * 10));
          held.shift()?.();
        }
        assert.equal((await ended).stored, 100);
      },
    );
  });

  test("the size of requests is limited", async () => {
    await withServer(
      (_, response) => {
        reply(response, 200, WRITTEN);
      },
      async (url, received) => {
        const made = Array.from({ length: 9 }, (_, number) => ({
          id: `d${number}`,
          text: (number === 4 ? "ä" : "a").repeat(number === 4 ? 1000 : 100),
          embedding: [1],
        }));
        const summary = await new Client(url).ingestAll("abc", made, { batchBytes: 500, concurrency: 1 });
        assert.deepEqual([summary.stored, summary.requests], [9, received.length]);
        assert.ok(received.length >= 3);
        for (const request of received) {
          assert.ok(Buffer.byteLength(request.body) <= 520 || idsOf(request).join() === "d4");
        }
        assert.deepEqual(
          received.flatMap(idsOf),
          made.map(({ id }) => id),
        );
      },
    );
  });

  test("the later of two documents with the same id is sent later", async () => {
    let concurrent = 0;
    const texts: string[] = [];
    await withServer(
      (request, response) => {
        concurrent += 1;
        assert.equal(concurrent, 1, "two documents with the same id are in flight");
        const { documents: sent } = JSON.parse(request.body) as { documents: NewDocument[] };
        setTimeout(() => {
          concurrent -= 1;
          texts.push(...sent.map(({ text }) => text));
          reply(response, 200, WRITTEN);
        }, 10);
      },
      async (url) => {
        const made = ["first", "second", "third"].map((text) => ({ id: "same", text, embedding: [1] }));
        const outcomes = await collect(new Client(url).ingest("abc", made));
        assert.deepEqual(
          outcomes.map(({ index, stored }) => [index, stored]),
          [
            [0, true],
            [1, true],
            [2, true],
          ],
        );
        assert.deepEqual(texts, ["first", "second", "third"]);
      },
    );
  });

  test("a request that fails temporarily is retried", async () => {
    await withServer(
      (_, response, number) => {
        if (number % 2 === 1) {
          sendProblem(response, 503);
        } else {
          reply(response, 200, WRITTEN);
        }
      },
      async (url) => {
        const options = { batchDocuments: 5, concurrency: 1 };
        assert.equal((await new Client(url, QUICK).ingestAll("abc", documents(20, 2), options)).stored, 20);
      },
    );
  });

  test("a request that is too large is split, and the next ones are smaller", async () => {
    await withServer(
      (request, response) => {
        if (idsOf(request).length > 5) {
          sendProblem(response, 413);
        } else {
          reply(response, 200, WRITTEN);
        }
      },
      async (url, received) => {
        const options = { batchDocuments: 20, concurrency: 1 };
        const { stored, requests } = await new Client(url).ingestAll("abc", documents(60, 2), options);
        // One of 20, two of 10 in two of 5 each, then eight of 5.
        assert.deepEqual([stored, requests, received.length], [60, 15, 15]);
      },
    );
  });

  test("a batch that is too large is halved, whatever fields are to blame", async () => {
    await withServer(
      (request, response) => {
        if (idsOf(request).length > 2) {
          const errors = [{ path: "$.documents[0]", message: "too large" }];
          sendProblem(response, 400, {}, { code: "batch_too_large", errors });
        } else {
          reply(response, 200, WRITTEN);
        }
      },
      async (url, received) => {
        const summary = await new Client(url).ingestAll("abc", documents(4, 2));
        assert.equal(summary.stored, 4);
        assert.deepEqual(
          received.map((request) => idsOf(request).length),
          [4, 2, 2],
        );
      },
    );
  });

  test("a document that cannot be sent fails alone", async () => {
    await withServer(
      (_, response) => {
        reply(response, 200, WRITTEN);
      },
      async (url, received) => {
        const made: NewDocument[] = [
          { id: "a", text: "x", embedding: [1] },
          { text: "no id", embedding: [1] },
          { id: "c", text: "x", embedding: [] },
        ];
        const summary = await new Client(url).ingestAll("abc", made);
        assert.deepEqual([summary.read, summary.stored, summary.failed], [3, 1, 2]);
        assert.ok(summary.failures.every(({ error }) => error instanceof InvalidInput));
        assert.deepEqual(received.flatMap(idsOf), ["a"]);
      },
    );
  });

  test("the error that ends it is thrown after the outcomes of all documents that were read", async () => {
    await withServer(
      (_, response, number) => {
        if (number > 2) {
          sendProblem(response, 403);
        } else {
          reply(response, 200, WRITTEN);
        }
      },
      async (url) => {
        const stored: boolean[] = [];
        let pulled = 0;
        let left = false;
        async function* source(): AsyncGenerator<NewDocument> {
          try {
            for (const made of documents(1000, 2)) {
              pulled += 1;
              yield made;
            }
            await Promise.resolve();
          } finally {
            left = true;
          }
        }
        const reading = async (): Promise<void> => {
          const options = { batchDocuments: 10, concurrency: 2 };
          for await (const outcome of new Client(url, QUICK).ingest("abc", source(), options)) {
            stored.push(outcome.stored);
          }
        };
        await rejection(reading(), Forbidden);
        assert.deepEqual([stored.length, stored.filter(Boolean).length], [pulled, 20]);
        assert.ok(pulled < 100);
        assert.ok(left);
      },
    );
  });

  test("the error of a source is thrown after its documents are stored", async () => {
    await withServer(
      (_, response) => {
        reply(response, 200, WRITTEN);
      },
      async (url, received) => {
        function* source(): Generator<NewDocument> {
          yield* documents(15, 2);
          throw new RangeError("the file ends early");
        }
        await rejection(new Client(url).ingestAll("abc", source(), { batchDocuments: 10 }), RangeError);
        assert.equal(received.flatMap(idsOf).length, 15);
      },
    );
  });

  test("a signal aborts it, even while the source is pending", async () => {
    await withServer(
      (_, response) => {
        reply(response, 200, WRITTEN);
      },
      async (url) => {
        async function* source(): AsyncGenerator<NewDocument> {
          yield* documents(3, 2);
          await new Promise(() => undefined);
        }
        const controller = new AbortController();
        setTimeout(() => {
          controller.abort(new RangeError("enough"));
        }, 50);
        const outcomes: boolean[] = [];
        const reading = async (): Promise<void> => {
          for await (const { stored } of new Client(url).ingest("abc", source(), { signal: controller.signal })) {
            outcomes.push(stored);
          }
        };
        await rejection(reading(), RangeError);
        assert.deepEqual(outcomes, [false, false, false]);
      },
    );
  });

  test("an early exit closes the source and aborts the requests", async () => {
    await withServer(
      (_, response, number) => {
        if (number === 1) {
          reply(response, 200, WRITTEN);
        }
      },
      async (url) => {
        let left = false;
        function* source(): Generator<NewDocument> {
          try {
            yield* documents(1000, 2);
          } finally {
            left = true;
          }
        }
        for await (const { stored } of new Client(url).ingest("abc", source(), { batchDocuments: 1 })) {
          assert.ok(stored);
          break;
        }
        assert.ok(left);
      },
    );
  });

  test("an exception of onProgress ends it", async () => {
    await withServer(
      (_, response) => {
        reply(response, 200, WRITTEN);
      },
      async (url) => {
        const onProgress = (): void => {
          throw new RangeError("no");
        };
        await rejection(new Client(url).ingestAll("abc", documents(3, 2), { onProgress }), RangeError);
      },
    );
  });

  test("invalid limits are rejected", async () => {
    for (const options of [{ concurrency: 0 }, { batchDocuments: 0.5 }, { batchBytes: -1 }, { retryMs: NaN }]) {
      await rejection(new Client(UNUSED_URL).ingestAll("abc", documents(1, 2), options), InvalidInput);
    }
  });
});
