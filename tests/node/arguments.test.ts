/** Arguments, options and errors of the client, against scripted servers. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer as createTlsServer } from "node:https";
import { createServer as createTcpServer } from "node:net";
import type { AddressInfo } from "node:net";
import { afterEach, describe, test } from "node:test";

import {
  CallTimeout,
  Client,
  CollectionMismatch,
  Conflict,
  ConnectFailed,
  ConnectionLost,
  InvalidConfiguration,
  InvalidInput,
  NO_RETRIES,
  NotFound,
  TransportError,
  UnexpectedResponse,
} from "@ragstore/client";
import { GatewayClient } from "@ragstore/client/gateway";

import { closedUrl, collect, rejection, reply, sendProblem, withServer } from "./support.js";

const URL = "http://127.0.0.1:9999";
const COLLECTION = { name: "abc", metadata: {}, count: 0, dimension: null, distance: "cosine" };
const EMPTY_PAGE = { documents: [], count: 0, total: 0 };

describe("options", () => {
  const client = new Client(URL);
  const gateway = new GatewayClient(URL);
  const calls: [string, (options: never) => unknown][] = [
    ["query", (options) => client.query("abc", [1], options)],
    ["queryBatch", (options) => client.queryBatch("abc", [[1]], options)],
    ["queryCollections", (options) => client.queryCollections(["abc"], [1], options)],
    ["mapCollection", (options) => client.mapCollection("abc", options)],
    ["createCollection", (options) => client.createCollection("abc", options)],
    ["listCollections", (options) => client.listCollections(options)],
    ["iterCollections", (options) => client.iterCollections(options).next()],
    ["getCollection", (options) => client.getCollection("abc", options)],
    ["exists", (options) => client.collectionExists("abc", options)],
    ["updateCollectionMetadata", (options) => client.updateCollectionMetadata("abc", {}, options)],
    ["deleteCollection", (options) => client.deleteCollection("abc", options)],
    ["startRebuild", (options) => client.startRebuild("abc", options)],
    ["getRebuild", (options) => client.getRebuild("abc", options)],
    ["metadataValues", (options) => client.metadataValues("abc", "layer", options)],
    ["addDocuments", (options) => client.addDocuments("abc", [], options)],
    ["upsertDocuments", (options) => client.upsertDocuments("abc", [], options)],
    ["ingest", (options) => client.ingestAll("abc", [], options)],
    ["listDocuments", (options) => client.listDocuments("abc", options)],
    ["iterDocuments", (options) => client.iterDocuments("abc", options).next()],
    ["count", (options) => client.count("abc", options)],
    ["getDocument", (options) => client.getDocument("abc", "a", options)],
    ["getDocuments", (options) => client.getDocuments("abc", ["a"], options)],
    ["documentExists", (options) => client.documentExists("abc", "a", options)],
    ["updateDocuments", (options) => client.updateDocuments("abc", {}, options)],
    ["openapi", (options) => client.openapi(options)],
    ["deleteDocuments", (options) => client.deleteDocuments("abc", options)],
    ["emptyCollection", (options) => client.emptyCollection("abc", options)],
    ["info", (options) => client.info(options)],
    ["health", (options) => client.health(options)],
    ["live", (options) => client.live(options)],
    ["ready", (options) => client.ready(options)],
    ["metrics", (options) => client.metrics(options)],
    ["page", (options) => gateway.bases.page(options)],
    ["iter", (options) => gateway.bases.iter(options).next()],
    ["find", (options) => gateway.bases.find("a", options)],
    ["exists", (options) => gateway.bases.exists("a", options)],
    ["get", (options) => gateway.bases.get("a", options)],
    ["create", (options) => gateway.bases.create({ name: "a" }, options)],
    ["update", (options) => gateway.bases.update("a", {}, options)],
    ["duplicate", (options) => gateway.bases.duplicate("a", options)],
    ["delete", (options) => gateway.bases.delete("a", options)],
    ["versions", (options) => gateway.bases.versions("a", options)],
    ["listDocuments", (options) => gateway.listDocuments("a", options)],
    ["iterDocuments", (options) => gateway.iterDocuments("a", options).next()],
    ["getDocument", (options) => gateway.getDocument("a", "b", options)],
    ["documentText", (options) => gateway.documentText("a", "b", options)],
    ["deleteDocument", (options) => gateway.deleteDocument("a", "b", options)],
    ["ingestionStatus", (options) => gateway.ingestionStatus("a", "b", options)],
    ["ingestionProgress", (options) => gateway.ingestionProgress("a", [], options)],
    ["cancelIngestion", (options) => gateway.cancelIngestion("a", "b", options)],
    ["search", (options) => gateway.search("a", "b", options)],
    ["readPassage", (options) => gateway.readPassage("a", "b", options)],
    ["ingest", (options) => gateway.ingestAll("a", [], options)],
    ["ingestFolder", (options) => gateway.ingestFolder("a", "b", options)],
    ["ingestFile", (options) => gateway.ingestFile("a", "b", options)],
    ["ingestText", (options) => gateway.ingestText("a", "b", "c", options)],
    ["ingestPage", (options) => gateway.ingestPage("a", "b", options)],
    ["runSource", (options) => gateway.runSource("a", "b", options)],
    ["startRun", (options) => gateway.startRun("a", "b", options)],
    ["runQuestionSet", (options) => gateway.runQuestionSet("a", options)],
    ["startQuestionRun", (options) => gateway.startQuestionRun("a", options)],
    ["waitForQuestionRun", (options) => gateway.waitForQuestionRun("a", "b", options)],
    ["getQuestionRun", (options) => gateway.getQuestionRun("a", "b", options)],
    ["cancelQuestionRun", (options) => gateway.cancelQuestionRun("a", "b", options)],
    ["iterQuestionRuns", (options) => gateway.iterQuestionRuns("a", options).next()],
    ["waitForRun", (options) => gateway.waitForRun("a", "b", "c", options)],
    ["getRun", (options) => gateway.getRun("a", "b", "c", options)],
    ["iterRuns", (options) => gateway.iterRuns("a", "b", options).next()],
    ["cancelRun", (options) => gateway.cancelRun("a", "b", "c", options)],
    ["purgeSource", (options) => gateway.purgeSource("a", "b", options)],
    ["uploadFile", (options) => gateway.uploadFile("a", "b", { name: "c", text: "d" }, options)],
    ["iterFiles", (options) => gateway.iterFiles("a", "b", options).next()],
    ["deleteFile", (options) => gateway.deleteFile("a", "b", "c", options)],
    ["iterAuditEntries", (options) => gateway.iterAuditEntries(options).next()],
    ["giveFeedback", (options) => gateway.giveFeedback("a", "b", true, options)],
    ["access", (options) => gateway.access(options)],
    ["request", (options) => gateway.request("GET", "/a", options)],
  ];
  for (const [name, call] of calls) {
    test(`an unknown option of ${name} is refused`, async () => {
      const wrong = { nResults: 1 } as never;
      const error = await rejection(Promise.resolve().then(() => call(wrong)), InvalidInput);
      assert.ok(error.message.startsWith(`${name}: unknown option 'nResults'`), error.message);
    });
  }

  test("the message for a name of the contract has the name of JavaScript", async () => {
    const error = await rejection(client.query("abc", [1], { top_k: 1 } as object), InvalidInput);
    assert.match(error.message, /unknown option 'top_k'; the option is 'topK'/);
    assert.throws(() => new Client(URL, { timeout: 5 } as object), /unknown option 'timeout'.*timeoutMs/);
    assert.throws(() => new Client(URL, { retries: { tries: 5 } as object }), /unknown field 'tries'/);
  });

  test("a collection's name comes first", async () => {
    const wrong = { name: "abc" } as unknown as string;
    assert.match((await rejection(client.createCollection(wrong), InvalidInput)).message, /createCollection\("name"/);
    await rejection(client.getCollection(wrong), InvalidInput);
  });

  test("one id where several are meant is refused", async () => {
    // @ts-expect-error: the types refuse it, too
    await rejection(client.deleteDocuments("abc", { ids: "12" }), InvalidInput);
    // @ts-expect-error: the types refuse it, too
    await rejection(client.listDocuments("abc", { ids: "12" }), InvalidInput);
    for (const wrong of ["12", 12, [12], null] as unknown as string[][]) {
      await rejection(client.getDocuments("abc", wrong), InvalidInput);
      await rejection(client.queryCollections(wrong, [1]), InvalidInput);
    }
  });

  test("wrong time limits and retries are refused when a client is made", () => {
    const wrong: Record<string, unknown>[] = [
      ...[0, -1, Number.NaN, "5", true].flatMap((value) => [{ timeoutMs: value }, { deadlineMs: value }]),
      ...[-1, 0.5, Number.NaN, "3", { attempts: 0 }, { baseMs: -1 }, { budgetMs: "5" }].map((retries) => ({ retries })),
      { apiKey: "a b" },
      { apiKey: 5 },
      { fetch: "fetch" },
    ];
    for (const options of wrong) {
      assert.throws(() => new Client(URL, options), InvalidConfiguration, JSON.stringify(options));
    }
    for (const options of [{ timeoutMs: null }, { timeoutMs: Infinity }, { retries: 0 }, { retries: NO_RETRIES }]) {
      assert.ok(new Client(URL, options));
    }
  });
});

describe("the options of a call", () => {
  test("headers and the request id are sent with every attempt", async () => {
    await withServer(
      (_, response, number) => {
        if (number === 1) {
          sendProblem(response, 503);
        } else {
          reply(response, 200, COLLECTION);
        }
      },
      async (url, received) => {
        const client = new Client(url, { headers: { "X-Tenant": "a", "x-request-id": "r0" }, retries: { baseMs: 1 } });
        await client.getCollection("abc", { headers: { "X-TENANT": "b", traceparent: "t" }, requestId: "r1" });
        assert.deepEqual(
          received.map(({ headers }) => [headers["x-tenant"], headers.traceparent, headers["x-request-id"]]),
          [
            ["b", "t", "r1"],
            ["b", "t", "r1"],
          ],
        );
        await client.getCollection("abc");
        assert.equal(received.at(-1)?.headers["x-request-id"], "r0");
        await new Client(url).getCollection("abc");
        assert.match(String(received.at(-1)?.headers["x-request-id"]), /^[0-9a-f]{32}$/);
        await rejection(client.getCollection("abc", { requestId: "" }), InvalidInput);
      },
    );
  });

  test("a time limit, a deadline and retries override the client's", async () => {
    await withServer(
      () => undefined,
      async (url) => {
        const client = new Client(url, { timeoutMs: 60_000 });
        const once = await rejection(client.getCollection("abc", { timeoutMs: 30, retries: 0 }), CallTimeout);
        assert.equal(once.attempts, 1);
        const error = await rejection(client.getCollection("abc", { timeoutMs: 40, deadlineMs: 100, retries: 50 }), CallTimeout);
        assert.ok(error.attempts >= 1 && error.attempts <= 3, `${error.attempts} attempts`);
      },
    );
  });

  test("withOptions makes a client with other options", async () => {
    await withServer(
      (_, response) => {
        sendProblem(response, 503);
      },
      async (url, received) => {
        const { host } = new globalThis.URL(url);
        const client = new Client(`http://user:secret@${host}`, { headers: { "x-tenant": "a" } });
        assert.equal(client.baseUrl, url);
        const other = client.withOptions({ retries: 0, headers: { traceparent: "t" } });
        await rejection(other.getCollection("abc"), Error);
        const [only] = received;
        assert.equal(received.length, 1);
        assert.deepEqual(
          [only?.headers["x-tenant"], only?.headers.traceparent, only?.headers.authorization],
          ["a", "t", `Basic ${Buffer.from("user:secret").toString("base64")}`],
        );
      },
    );
  });
});

describe("the environment", () => {
  const variables = ["RAGSTORE_URL", "RAGSTORE_API_KEY"];
  const clear = (): void => {
    for (const name of variables) {
      Reflect.deleteProperty(process.env, name);
    }
  };
  afterEach(clear);

  test("names the service and the key", async () => {
    await withServer(
      (_, response) => {
        reply(response, 200, COLLECTION);
      },
      async (url, received) => {
        process.env.RAGSTORE_URL = url;
        process.env.RAGSTORE_API_KEY = "from-env";
        await new Client().getCollection("abc");
        await new Client(url, { apiKey: "from-options" }).getCollection("abc");
        await new Client(url, { apiKey: "" }).getCollection("abc");
        assert.deepEqual(
          received.map(({ headers }) => headers.authorization),
          ["Bearer from-env", "Bearer from-options", undefined],
        );
      },
    );
    clear();
    assert.equal(new Client().baseUrl, "http://127.0.0.1:8080");
  });
});

describe("transport errors", () => {
  const lastError = async (client: Client): Promise<TransportError> => await rejection(client.info(), TransportError);

  test("say what happened, after how many attempts, and keep the cause", async () => {
    const url = await closedUrl();
    const refused = await lastError(new Client(url, { retries: { attempts: 3, baseMs: 1 } }));
    assert.ok(refused instanceof ConnectFailed);
    assert.match(refused.message, /^GET http:\S+: connection refused \(ECONNREFUSED\) \(3 attempts in [\d.]+ s\)$/);
    assert.ok(refused.message.includes(url));
    assert.deepEqual([refused.method, refused.url, refused.attempts], ["GET", `${url}/`, 3]);
    assert.ok(refused.elapsedMs > 0);
    assert.ok(refused.cause instanceof TypeError);
    const unknown = await lastError(new Client("http://no-such-host.invalid", { retries: 0 }));
    assert.ok(unknown instanceof ConnectFailed);
    assert.match(unknown.message, /: (unknown host|the host name cannot be resolved) \(/);
  });

  test("of a broken connection are a ConnectionLost", async () => {
    await withServer(
      (_, response) => response.destroy(),
      async (url) => {
        const lost = await lastError(new Client(url, { retries: 0 }));
        assert.ok(lost instanceof ConnectionLost);
        assert.match(lost.message, /: connection (closed|reset) \(/);
      },
    );
  });

  test("of a missing response say the time limit", async () => {
    await withServer(
      () => undefined,
      async (url) => {
        const late = await lastError(new Client(url, { timeoutMs: 50, retries: { attempts: 2, baseMs: 1 } }));
        assert.ok(late instanceof CallTimeout);
        assert.match(late.message, /: no complete response within 0.05 s \(2 attempts in [\d.]+ s\)$/);
      },
    );
  });

  test("of TLS are a ConnectFailed with the reason, and are not retried", async () => {
    const pem = await readFile(new globalThis.URL("../../../../tests/node/untrusted.pem", import.meta.url));
    const tls = createTlsServer({ key: pem, cert: pem }, (_, response) => response.end("{}"));
    await new Promise<void>((resolve) => tls.listen(0, "127.0.0.1", resolve));
    const plain = createTcpServer((socket) => socket.on("error", () => undefined).end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await new Promise<void>((resolve) => plain.listen(0, "127.0.0.1", resolve));
    try {
      const certificate = await lastError(new Client(`https://127.0.0.1:${(tls.address() as AddressInfo).port}`));
      assert.ok(certificate instanceof ConnectFailed);
      assert.match(certificate.message, /the TLS certificate was not accepted: .*self.signed/i);
      assert.equal(certificate.attempts, 1);
      const handshake = await lastError(new Client(`https://127.0.0.1:${(plain.address() as AddressInfo).port}`));
      assert.ok(handshake instanceof ConnectFailed);
      assert.match(handshake.message, /the TLS handshake failed/);
    } finally {
      tls.close();
      plain.close();
    }
  });

  test("have no query string in their URL", async () => {
    const error = await rejection(new Client(await closedUrl(), { retries: 0 }).metadataValues("abc", "layer"), ConnectFailed);
    assert.ok(error.url.endsWith("/collections/abc/metadata-values") && !error.message.includes("layer"));
  });
});

test("another service at the URL is named as such", async () => {
  const responses = [
    [404, JSON.stringify({ detail: "Not Found" }), NotFound],
    [404, "<h1>Not found</h1>", NotFound],
    [200, "<h1>Welcome</h1>", UnexpectedResponse],
  ] as const;
  for (const [status, body, kind] of responses) {
    await withServer(
      (_, response) => response.writeHead(status).end(body),
      async (url) => {
        const error = await rejection(new Client(url, { retries: 0 }).getCollection("abc"), kind);
        assert.match(error.message, /^GET \S+\/collections\/abc: .* is no ragstore service: check the URL/);
      },
    );
  }
  await withServer(
    (_, response) => {
      sendProblem(response, 404, {}, { code: "collection_not_found" });
    },
    async (url) => {
      const error = await rejection(new Client(url).getCollection("abc"), NotFound);
      assert.deepEqual([error.message, error.method, error.url], ["rejected with 404", "GET", `${url}/collections/abc`]);
    },
  );
});

describe("lists", () => {
  const page = (from: number, count: number, total: number | null): object => ({
    documents: Array.from({ length: count }, (_, index) => ({ id: `d${from + index}`, text: "x", metadata: {} })),
    count,
    total,
  });
  interface Query {
    limit: number;
    offset: number;
    total?: boolean;
  }

  /** A server with 2,500 documents, whose pages have at most 1,000. */
  async function withDocuments<T>(use: (client: Client, queries: Query[]) => Promise<T>): Promise<T> {
    const queries: Query[] = [];
    return await withServer(
      ({ url, body }, response) => {
        const params = new globalThis.URL(url, URL).searchParams;
        const query = (
          body ? JSON.parse(body) : { limit: Number(params.get("limit")), offset: Number(params.get("offset")) }
        ) as Query;
        queries.push(query);
        const count = Math.max(0, Math.min(query.limit, 1000, 2500 - query.offset));
        reply(response, 200, page(query.offset, count, 2500));
      },
      (url) => use(new Client(url), queries),
    );
  }

  test("with ids return all of them, without a limit", async () => {
    await withDocuments(async (client, queries) => {
      const ids = Array.from({ length: 1500 }, (_, number) => `d${number}`);
      assert.equal((await client.listDocuments("abc", { ids: ids.slice(0, 300) })).count, 300);
      assert.equal((await client.listDocuments("abc", { ids })).count, 1500);
      assert.deepEqual(
        queries.map(({ limit, offset }) => [limit, offset]),
        [
          [300, 0],
          [1000, 0],
          [500, 1000],
        ],
      );
    });
  });

  test("after a cursor there is no offset, and no limit beyond a page", async () => {
    await withDocuments(async (client, queries) => {
      await rejection(client.listDocuments("abc", { after: "x", offset: 0 }), InvalidInput);
      await rejection(client.listDocuments("abc", { after: "x", limit: 1001 }), InvalidInput);
      await rejection(client.listDocuments("abc", { after: 1 as unknown as string }), InvalidInput);
      assert.equal(queries.length, 0);
    });
  });

  test("with a limit beyond a page return that many", async () => {
    await withDocuments(async (client) => {
      const { count, total, documents } = await client.listDocuments("abc", { limit: 5000 });
      assert.deepEqual([count, total, documents.length], [2500, 2500, 2500]);
      assert.equal((await client.listDocuments("abc", { limit: 1700, offset: 100 })).documents.at(-1)?.id, "d1799");
    });
  });

  test("iterate by pages of pageSize up to limit", async () => {
    await withDocuments(async (client, queries) => {
      assert.equal((await collect(client.iterDocuments("abc", { limit: 10 }))).length, 10);
      assert.equal((await collect(client.iterDocuments("abc", { limit: 7, pageSize: 3, offset: 2 }))).at(-1)?.id, "d8");
      assert.equal((await collect(client.iterDocuments("abc", { pageSize: 900 }))).length, 2500);
      assert.deepEqual(
        queries.map(({ limit, offset }) => [limit, offset]),
        [
          [10, 0],
          [3, 2],
          [3, 5],
          [1, 8],
          [900, 0],
          [900, 900],
          [900, 1800],
        ],
      );
      for (const wrong of [{ pageSize: 1001 }, { pageSize: 0 }, { limit: 0 }, { offset: -1 }]) {
        await rejection(collect(client.iterDocuments("abc", wrong)), InvalidInput);
      }
    });
  });

  test("of documents by id are in the order of the ids, without those that do not exist", async () => {
    await withServer(
      ({ body }, response) => {
        const { ids } = JSON.parse(body) as { ids: string[] };
        const found = ids.filter((id) => id !== "missing").reverse();
        const stored = found.map((id) => ({ id, text: id, metadata: {} }));
        reply(response, 200, { documents: stored, count: stored.length, total: null });
      },
      async (url) => {
        const documents = await new Client(url).getDocuments("abc", ["b", "missing", "a", "b"]);
        assert.deepEqual(
          documents.map(({ id }) => id),
          ["b", "a"],
        );
      },
    );
  });
});

describe("getOrCreate", () => {
  const existing = { ...COLLECTION, status: "exists", distance: "l2", metadata: { embedding_model: "m1" } };

  test("of a collection with other settings is a CollectionMismatch", async () => {
    await withServer(
      (_, response) => {
        reply(response, 200, existing);
      },
      async (url) => {
        const client = new Client(url);
        const get = { getOrCreate: true } as const;
        const distance = await rejection(client.createCollection("abc", { ...get, distance: "cosine" }), CollectionMismatch);
        assert.match(distance.message, /the distance 'l2', not 'cosine'/);
        await rejection(client.createCollection("abc", { ...get, embeddingModel: "m2" }), CollectionMismatch);
        await rejection(client.createCollection("abc", { ...get, metadata: { embedding_model: "m2" } }), CollectionMismatch);
        for (const options of [{}, { distance: "l2" }, { embeddingModel: "m1" }, { distance: "ip", ifExists: "use" }] as const) {
          assert.equal((await client.createCollection("abc", { ...get, ...options })).status, "exists");
        }
      },
    );
  });

  test("without it, an existing collection is a Conflict", async () => {
    await withServer(
      (_, response) => {
        sendProblem(response, 409);
      },
      async (url) => {
        await rejection(new Client(url).createCollection("abc"), Conflict);
      },
    );
  });
});

test("exists is false only if the service says that the collection does not exist", async () => {
  await withServer(
    ({ url }, response) => {
      if (url.endsWith("/absent")) {
        sendProblem(response, 404, {}, { code: "collection_not_found" });
      } else if (url.endsWith("/elsewhere")) {
        response.writeHead(404).end("{}");
      } else {
        reply(response, 200, COLLECTION);
      }
    },
    async (url) => {
      const client = new Client(url);
      assert.deepEqual([await client.collectionExists("abc"), await client.collectionExists("absent")], [true, false]);
      await rejection(client.collectionExists("elsewhere"), NotFound);
    },
  );
});

test("the first error of several queries ends them", async () => {
  await withServer(
    (_, response, number) => {
      if (number === 3) {
        sendProblem(response, 400);
      } else if (number < 3) {
        reply(response, 200, { results: [], count: 0, collection_metadata: {} });
      }
    },
    async (url, received) => {
      const embeddings = Array.from({ length: 40 }, (_, number) => [number]);
      const error = await rejection(new Client(url).queryBatch("abc", embeddings, { concurrency: 2 }), Error);
      assert.equal(error.message, "rejected with 400");
      assert.ok(received.length <= 4);
    },
  );
});

test("an empty list of filters is a filter", async () => {
  await withServer(
    (_, response) => {
      reply(response, 200, EMPTY_PAGE);
    },
    async (url, received) => {
      const client = new Client(url);
      assert.equal(await client.count("abc"), 0);
      assert.equal(await client.count("abc", { where: { page: 3 }, ids: ["a"] }), 0);
      assert.deepEqual(
        received.map(({ method, url: path, body }) => [method, path, body]),
        [
          ["GET", "/collections/abc/documents?limit=1&offset=0&total=true", ""],
          ["POST", "/collections/abc/documents/filter", '{"where":{"page":3},"ids":["a"],"limit":1,"offset":0,"total":true}'],
        ],
      );
    },
  );
});
