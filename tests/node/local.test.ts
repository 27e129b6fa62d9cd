/** The client against servers that behave as told, and nobody. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import {
  BadGateway,
  CallTimeout,
  Client,
  Conflict,
  ConnectFailed,
  ConnectionLost,
  Forbidden,
  GatewayTimeout,
  InvalidInput,
  InvalidRequest,
  type NewDocument,
  NotFound,
  PayloadTooLarge,
  ProblemError,
  RagstoreError,
  ServerError,
  toBase64,
  TooManyRequests,
  Unauthorized,
  Unavailable,
  UnexpectedResponse,
  UnsupportedMediaType,
} from "@ragstore/client";

import { closed, collect, documents, idsOf, refuse, rejection, reply, withServer } from "./support.js";

const QUICK = { retries: { baseMs: 1 } };
const COLLECTION = { name: "abc", metadata: {}, count: 0, dimension: null, distance: "cosine" };
const WRITTEN = { status: "upserted", collection: "abc", count: 0, ids: [] };
const nobody = "http://127.0.0.1:1";

describe("embeddings", () => {
  test("travel as the base64 of little-endian float32", () => {
    const expected = "zczMPc3MTD6amZk+";
    assert.equal(toBase64([0.1, 0.2, 0.3]), expected);
    assert.equal(toBase64(Float32Array.of(0.1, 0.2, 0.3)), expected);
    assert.equal(toBase64(Float64Array.of(0.1, 0.2, 0.3)), expected);
    assert.equal(toBase64(expected), expected);
  });

  test("a view is sent without what surrounds it", () => {
    assert.equal(toBase64(Float32Array.of(9, 0.1, 0.2, 0.3, 9).subarray(1, 4)), "zczMPc3MTD6amZk+");
  });

  test("what is none is refused", () => {
    for (const wrong of [[], new Float32Array(), [null], ["1"], [[1]], {}, null]) {
      assert.throws(() => toBase64(wrong as number[]), InvalidInput);
    }
  });
});

describe("problems", () => {
  const classes = [
    [400, InvalidRequest],
    [401, Unauthorized],
    [403, Forbidden],
    [404, NotFound],
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
          refuse(response, status, { "x-request-id": "r1", "retry-after": "7" }, { errors });
        },
        async (url) => {
          const client = new Client(url, { retries: { attempts: 1 } });
          const error = await rejection(client.getCollection("abc"), kind);
          assert.equal(error.constructor, kind);
          assert.ok(error instanceof ProblemError && error instanceof RagstoreError);
          const { name, message, title, detail, requestId, retryAfterMs } = error;
          assert.deepEqual(
            { name, status: error.status, message, title, detail, errors: error.errors, requestId, retryAfterMs },
            {
              name: kind.name,
              status,
              message: `refused with ${status}`,
              title: "Refused",
              detail: `refused with ${status}`,
              errors,
              requestId: "r1",
              retryAfterMs: 7000,
            },
          );
        },
      );
    });
  }

  test("a proxy's page keeps its status", async () => {
    await withServer(
      (_, response) => response.writeHead(503, { "content-type": "text/html" }).end("<h1>Away</h1>"),
      async (url) => {
        const error = await rejection(new Client(url, { retries: { attempts: 1 } }).health(), Unavailable);
        assert.equal(error.detail, "");
      },
    );
  });

  test("an answer that is none of the contract", async () => {
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
  test("carry the key and further headers", async () => {
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

  test("what cannot be sent is refused, and never repeats the key", async () => {
    for (const url of ["", "ftp://a", "http://user:secret@a", "http://a/?b=c", "http://a/#b"]) {
      assert.throws(() => new Client(url), InvalidInput);
    }
    assert.throws(
      () => new Client(nobody, { apiKey: "sec\nret" }),
      (error: Error) => error instanceof InvalidInput && !error.message.includes("ret"),
    );
    const client = new Client(nobody);
    await rejection(client.getCollection(".."), InvalidInput);
    await rejection(client.getDocument("abc", ""), InvalidInput);
    await rejection(client.getDocument("abc", "\ud800"), InvalidInput);
    await rejection(client.updateMetadata("abc", { edition: Number.NaN }), InvalidInput);
    const made = { id: "a", text: "x", embedding: [1], metadata: { sizes: [1, Number.POSITIVE_INFINITY] } };
    const error = await rejection(client.upsertDocuments("abc", [made]), InvalidInput);
    assert.equal(error.message, "$.metadata.sizes[1] must be a finite number");
  });
});

describe("trying again", () => {
  test("a busy service is asked again after Retry-After", async () => {
    const times: number[] = [];
    await withServer(
      (_, response, number) => {
        times.push(performance.now());
        if (number === 1) {
          refuse(response, 503, { "retry-after": "1" });
        } else {
          reply(response, 200, COLLECTION);
        }
      },
      async (url) => {
        assert.equal((await new Client(url, QUICK).getCollection("abc")).name, "abc");
        const [first = 0, second = 0] = times;
        assert.ok(second - first >= 990, `came back after ${second - first} ms`);
      },
    );
  });

  test("Retry-After beyond the budget is not waited for", async () => {
    await withServer(
      (_, response) => {
        refuse(response, 503, { "retry-after": "60" });
      },
      async (url, received) => {
        await rejection(new Client(url).getCollection("abc"), Unavailable);
        assert.equal(received.length, 1);
      },
    );
  });

  const repeated: [string, (client: Client) => Promise<unknown>][] = [
    ["GET", (client) => client.listDocuments("abc")],
    ["PUT", (client) => client.upsertDocuments("abc", documents(1, 2))],
    ["DELETE", (client) => client.emptyCollection("abc")],
    ["POST filter", (client) => client.listDocuments("abc", { where: { layer: "chunk" } })],
    ["POST delete", (client) => client.deleteDocuments("abc", { ids: ["a"] })],
    ["POST query", (client) => client.query("abc", [1])],
    ["POST query over several", (client) => client.queryCollections(["abc"], [1])],
    ["POST with get_or_create", (client) => client.createCollection({ name: "abc", get_or_create: true })],
  ];
  for (const [what, call] of repeated) {
    test(`${what} is repeated, four times in all`, async () => {
      await withServer(
        (_, response, number) => {
          if (number === 1) {
            response.destroy();
          } else {
            refuse(response, 501 + number);
          }
        },
        async (url, received) => {
          const error = await rejection(call(new Client(url, QUICK)), RagstoreError);
          // Destroyed, 503, 504, and then 505 is final.
          assert.equal(error.constructor, ServerError);
          assert.equal(received.length, 4);
        },
      );
    });
  }

  const once: [string, (client: Client) => Promise<unknown>][] = [
    ["add", (client) => client.addDocuments("abc", documents(1, 2))],
    ["create", (client) => client.createCollection({ name: "abc" })],
  ];
  for (const [what, call] of once) {
    test(`${what} is not repeated when it may have happened`, async () => {
      await withServer(
        (_, response) => {
          refuse(response, 503);
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

    test(`${what} is repeated when nothing can have happened`, async () => {
      await withServer(
        (_, response, number) => {
          if (number < 3) {
            refuse(response, 429);
          } else {
            reply(response, 201, WRITTEN);
          }
        },
        async (url, received) => {
          await call(new Client(url, QUICK));
          assert.equal(received.length, 3);
        },
      );
      let tries = 0;
      const counting = (request: Request): Promise<Response> => {
        tries += 1;
        return fetch(request);
      };
      await rejection(call(new Client(await closed(), { ...QUICK, fetch: counting })), ConnectFailed);
      assert.equal(tries, 4);
    });
  }

  test("deleting a collection is done when an earlier try did it", async () => {
    await withServer(
      (_, response, number) => {
        refuse(response, number === 1 ? 504 : 404);
      },
      async (url) => {
        assert.deepEqual(await new Client(url, QUICK).deleteCollection("abc"), { status: "deleted", name: "abc" });
      },
    );
  });

  test("no connection", async () => {
    const error = await rejection(new Client(await closed(), { retries: { attempts: 1 } }).info(), ConnectFailed);
    assert.equal(error.message, "no connection: ECONNREFUSED");
  });

  test("no answer in time, and a body that stops", async () => {
    for (const begun of [false, true]) {
      await withServer(
        (_, response) => {
          if (begun) {
            response.writeHead(200, { "content-type": "application/json" }).write('{"name":');
          }
        },
        async (url, received) => {
          const client = new Client(url, { timeoutMs: 60, retries: { attempts: 2, baseMs: 1 } });
          await rejection(client.getCollection("abc"), CallTimeout);
          assert.equal(received.length, 2);
        },
      );
    }
  });

  test("the caller's signal ends it, on its way and between tries", async () => {
    for (const answers of [false, true]) {
      await withServer(
        (_, response) => {
          if (answers) {
            refuse(response, 503, { "retry-after": "20" });
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
  test("the source is not read while the window is full", async () => {
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

  test("requests are bounded in bytes too", async () => {
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

  test("the later of two documents with one id comes later", async () => {
    let together = 0;
    const texts: string[] = [];
    await withServer(
      (request, response) => {
        together += 1;
        assert.equal(together, 1, "a document overtakes its namesake");
        const { documents: sent } = JSON.parse(request.body) as { documents: NewDocument[] };
        setTimeout(() => {
          together -= 1;
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

  test("a request that fails for a while is repeated", async () => {
    await withServer(
      (_, response, number) => {
        if (number % 2 === 1) {
          refuse(response, 503);
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

  test("requests that are too large become smaller, and the next ones with them", async () => {
    await withServer(
      (request, response) => {
        if (idsOf(request).length > 5) {
          refuse(response, 413);
        } else {
          reply(response, 200, WRITTEN);
        }
      },
      async (url, received) => {
        const options = { batchDocuments: 20, concurrency: 1 };
        const { stored, requests } = await new Client(url).ingestAll("abc", documents(60, 2), options);
        // 20, then twice 10 in twice 5, then eight of 5.
        assert.deepEqual([stored, requests, received.length], [60, 15, 15]);
      },
    );
  });

  test("documents that cannot be sent fail alone", async () => {
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

  test("what ends it is thrown after the outcomes of all that was read", async () => {
    await withServer(
      (_, response, number) => {
        if (number > 2) {
          refuse(response, 403);
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

  test("a source that fails is told after what it gave was stored", async () => {
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

  test("a signal ends it, even while the source gives nothing", async () => {
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

  test("leaving early leaves the source and the requests", async () => {
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

  test("what onProgress throws ends it", async () => {
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

  test("limits under which nothing could be sent are refused", async () => {
    for (const options of [{ concurrency: 0 }, { batchDocuments: 0.5 }, { batchBytes: -1 }, { batchRequests: NaN }]) {
      await rejection(new Client(nobody).ingestAll("abc", documents(1, 2), options), InvalidInput);
    }
  });
});
