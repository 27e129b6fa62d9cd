/** The retriever against a real service and a real Chroma server, whose URLs are in `RAGSTORE_TEST_*_URL`. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, EmbeddingFailed, InvalidConfiguration, InvalidInput, ProviderExists, UnknownProvider } from "@ragstore/client";
import {
  BackendDetector,
  chooseQuery,
  type Embedder,
  EmbeddingCache,
  EmbeddingsClient,
  extractRagConfig,
  formatContext,
  formatPassages,
  type Logger,
  type ProviderClass,
  ProviderRegistry,
  RagstoreProvider,
  registry,
  Retriever,
  settingsFromEnv,
} from "@ragstore/client/rag";
import { ChromaProvider } from "@ragstore/client/rag/chroma";

import { closedUrl, rejection, reply, sendProblem, serviceUrl, withServer } from "./support.js";

const RAGSTORE = serviceUrl("RAGSTORE_TEST_URL");
const CHROMA = serviceUrl("RAGSTORE_TEST_CHROMA_URL");
const DATABASE = `${CHROMA}/api/v2/tenants/default_tenant/databases/default_database`;
const MODEL = "m";

/** Embeds a number of radians as a point of the unit circle. */
class Circle implements Embedder {
  connection = "circle";
  readonly texts: string[] = [];

  embed(text: string): number[] {
    this.texts.push(text);
    return point(Number(text));
  }
}

function point(angle: number): number[] {
  return [Math.cos(angle), Math.sin(angle)];
}

interface Chunk {
  id: string;
  angle: number;
  text: string;
  metadata: Record<string, string | number>;
}

const chunk = (id: string, angle: number, metadata: Record<string, string | number> = {}): Chunk => ({
  id,
  angle,
  text: `Text of ${id}.`,
  metadata: { layer: "chunk", ...metadata },
});

const inRagstore = `repo_${randomUUID()}`;
const inChroma = `repo_${randomUUID()}`;
const other3 = `repo_${randomUUID()}`;
const client = new Client(RAGSTORE);

async function chroma(path: string, body: object): Promise<{ id: string }> {
  const response = await fetch(`${DATABASE}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  assert.ok(response.ok, await response.clone().text());
  return (await response.json()) as { id: string };
}

function recording(): { logger: Logger; lines: string[] } {
  const lines: string[] = [];
  const log = (message: string): void => void lines.push(message);
  return { logger: { info: log, warn: log, error: log }, lines };
}

before(async () => {
  const section = { document_id: "doc1", section_heading: "Heating", page_number: 3 };
  const chunks = [
    chunk("a0", 0.5, { ...section, chunk_index: 0, char_start: 0, char_end: 11 }),
    chunk("a1", 0.1, { ...section, chunk_index: 1, char_start: 11, char_end: 22 }),
    chunk("a2", 2, { document_id: "doc1", section_heading: "Rent", chunk_index: 2, char_start: 22, char_end: 33 }),
    chunk("page", 0.11, { layer: "page" }),
  ];
  await client.createCollection(inRagstore);
  await client.upsertDocuments(
    inRagstore,
    chunks.map(({ id, angle, text, metadata }) => ({ id, text, embedding: point(angle), metadata })),
  );
  await client.createCollection(other3);
  await client.upsertDocuments(other3, [{ id: "x", text: "x", embedding: [1, 0, 0] }]);
  const { id } = await chroma("/collections", { name: inChroma, configuration: { hnsw: { space: "cosine" } } });
  // Their offsets restart on each page.
  const span = { document_id: "doc9", char_start: 0, char_end: 11 };
  const records = [
    chunk("c0", 0.2, { ...span, page_number: 1, layer: "chunk" }),
    chunk("c1", 1, { ...span, page_number: 2, layer: "chunk" }),
    { ...chunk("a1", 0.1), id: "copy of a1" },
  ];
  await chroma(`/collections/${id}/add`, {
    ids: records.map((record) => record.id),
    documents: records.map(({ text }) => text),
    metadatas: records.map(({ metadata }) => metadata),
    embeddings: records.map(({ angle }) => point(angle)),
  });
});

after(async () => {
  await client.deleteCollection(inRagstore);
  await client.deleteCollection(other3);
  await fetch(`${DATABASE}/collections/${inChroma}`, { method: "DELETE" });
});

const archive = (name: string, collectionName: string, chromadbUrl = RAGSTORE, embeddingModel = MODEL) => ({
  name,
  collectionName,
  chromadbUrl,
  embeddingModel,
});

const both = { archives: [archive("Handbook", inRagstore), archive("Plain", inChroma, CHROMA)] };

describe("a search", () => {
  test("ranks the passages of ragstore and of plain Chroma together, without duplicates", async () => {
    const retriever = new Retriever(both, { embedder: new Circle() });
    const { passages, skipped, searched } = await retriever.search("0.1", { topK: 4, layer: "chunk" });
    assert.deepEqual(
      passages.map(({ id, archive: { name } }) => [id.replace("copy of ", ""), ["a1", "copy of a1"].includes(id) || name]),
      [
        ["a1", true],
        ["c0", "Plain"],
        ["a0", "Handbook"],
        ["c1", "Plain"],
      ],
    );
    assert.deepEqual([skipped, searched], [[], 2]);
    const [first, second] = passages;
    assert.ok(first && second && first.score > second.score && first.distance < second.distance);
  });

  test("keeps passages of equal span and different text", async () => {
    const plain = { archives: [archive("Plain", inChroma, CHROMA)] };
    const { passages } = await new Retriever(plain, { embedder: new Circle() }).search("0.2", { topK: 3 });
    assert.deepEqual(passages.map(({ id }) => id).sort(), ["c0", "c1", "copy of a1"]);
  });

  test("searches a collection whose documents have no layer as a whole, and says so once", async () => {
    const plain = `repo_${randomUUID()}`;
    await client.createCollection(plain);
    await client.upsertDocuments(plain, [{ id: "plain", text: "Plain.", embedding: point(0.1), metadata: { page: 1 } }]);
    const { logger, lines } = recording();
    const options = { embedder: new Circle(), logger };
    const retriever = new Retriever({ archives: [archive("Handbook", inRagstore), archive("Layerless", plain)] }, options);
    for (const layer of ["chunk", "chunk"]) {
      const { passages } = await retriever.search("0.1", { topK: 2, layer });
      assert.deepEqual(new Set(passages.map(({ id }) => id)), new Set(["a1", "plain"]));
    }
    assert.equal(lines.filter((line) => line.includes("have no layer: all of them are searched")).length, 1);
    assert.deepEqual((await retriever.search("0.1", { layer: "chunk", where: { page: 2 } })).passages, []);
    await client.deleteCollection(plain);
  });

  test("filters by layer and metadata, and returns vectors on request", async () => {
    const retriever = new Retriever(both, { embedder: new Circle() });
    const pages = await retriever.search("0.1", { where: { page_number: { $gte: 1, $lt: 3 } }, includeEmbeddings: true });
    assert.deepEqual(
      pages.passages.map(({ id }) => id),
      ["c0", "c1"],
    );
    assert.equal(pages.passages[0]?.embedding?.length, 2);
    const all = await retriever.search("0.11", { topK: 1, layer: "*" });
    assert.equal(all.passages[0]?.id, "page");
    assert.deepEqual((await retriever.search("0.1", { minScore: 0.999, layer: "chunk" })).passages.length, 1);
    await rejection(retriever.search("1", { top_k: 1 } as object), InvalidInput);
  });

  test("skips archives that fail, each for its reason, and logs no text", async () => {
    const { logger, lines } = recording();
    const archives = [
      archive("Handbook", inRagstore),
      archive("Absent", "repo_absent"),
      archive("Other dimension", other3),
      archive("Away", "repo_away", await closedUrl()),
      archive("Wrong", "repo_wrong", "ftp://nowhere"),
    ];
    const retriever = new Retriever({ archives }, { embedder: new Circle(), logger });
    const { passages, skipped, searched } = await retriever.search("0.1");
    assert.equal(passages[0]?.id, "a1");
    assert.equal(searched, 1);
    assert.deepEqual(Object.fromEntries(skipped.map(({ archive: { name }, reason }) => [name, reason])), {
      Wrong: "misconfigured",
      Absent: "collection not found",
      "Other dimension": "other embedding dimension",
      Away: "unreachable",
    });
    assert.ok(lines.some((line) => line.startsWith("Skipping archive Away")));
    assert.ok(!lines.some((line) => line.includes("0.1") || line.includes("Text of")));
  });

  test("a slow archive costs only its own results", async () => {
    await withServer(
      () => undefined,
      async (url) => {
        const archives = [archive("Handbook", inRagstore), archive("Slow", "repo_slow", url)];
        const settings = { queryTimeoutMs: 600 };
        const retriever = new Retriever({ archives }, { embedder: new Circle(), settings });
        const { passages, skipped } = await retriever.search("0.1", { topK: 1 });
        assert.deepEqual([passages.length, skipped.map(({ reason }) => reason)], [1, ["too slow"]]);
      },
    );
  });

  test("a slow collection costs only its own results", async () => {
    await withServer(
      ({ url, body }, response) => {
        if (url.includes("heartbeat")) {
          sendProblem(response, 404);
        } else {
          const { collections } = JSON.parse(body) as { collections: string[] };
          if (collections.length === 1 && collections[0] === "fast") {
            const match = { id: "m", text: "x", metadata: {}, distance: 0.1, score: 0.9, collection: "fast" };
            reply(response, 200, { results: [match], count: 1 });
          }
        }
      },
      async (url) => {
        const archives = [archive("Fast", "fast", url), archive("Slow", "slow", url)];
        const retriever = new Retriever({ archives }, { embedder: new Circle(), settings: { queryTimeoutMs: 600 } });
        const { passages, skipped } = await retriever.search("0.1");
        assert.deepEqual([passages.map(({ id }) => id), skipped.map(({ reason }) => reason)], [["m"], ["too slow"]]);
      },
    );
  });

  test("a signal ends it with its reason", async () => {
    await withServer(
      () => undefined,
      async (url) => {
        const retriever = new Retriever({ archives: [archive("Slow", "slow", url)] }, { embedder: new Circle() });
        const controller = new AbortController();
        const searching = retriever.search("0.1", { signal: controller.signal });
        setTimeout(() => {
          controller.abort(new RangeError("enough"));
        }, 20);
        await rejection(searching, RangeError);
      },
    );
  });

  test("a backend that has changed is detected", async () => {
    const detector = new BackendDetector();
    await withServer(
      ({ url }, response, number) => {
        // Plain Chroma first; from the third request on, ragstore.
        if (url.includes("heartbeat") && number < 3) {
          reply(response, 200, { "nanosecond heartbeat": 1 });
        } else if (url === "/query") {
          const match = { id: "m", text: "x", metadata: {}, distance: 0.1, score: 0.9, collection: "abc" };
          reply(response, 200, { results: [match], count: 1 });
        } else {
          sendProblem(response, 404);
        }
      },
      async (url) => {
        assert.equal(await detector.detect(url, { timeoutMs: 1000 }), "chroma");
        const retriever = new Retriever({ archives: [archive("A", "abc", url)] }, { embedder: new Circle(), detector });
        assert.equal((await retriever.search("0.1")).passages[0]?.id, "m");
        assert.equal(detector.cached(url), "ragstore");
      },
    );
  });

  test("the key goes to ragstore, and never to plain Chroma", async () => {
    for (const isChroma of [false, true]) {
      await withServer(
        ({ url }, response) => {
          if (url.includes("heartbeat") && isChroma) {
            reply(response, 200, { "nanosecond heartbeat": 1 });
          } else {
            sendProblem(response, 403);
          }
        },
        async (url, received) => {
          const config = { archives: [archive("A", "abc", url)] };
          const retriever = new Retriever(config, { embedder: new Circle(), apiKey: { [`${url}/`]: "k1" } });
          const { skipped } = await retriever.search("0.1");
          assert.deepEqual(
            skipped.map(({ reason }) => reason),
            ["key not accepted"],
          );
          const keys = received.map(({ url: path, headers }) => (path.includes("heartbeat") ? [] : [headers.authorization]));
          assert.deepEqual(new Set(keys.flat()), new Set([isChroma ? undefined : "Bearer k1"]));
        },
      );
    }
  });
});

describe("the query's vector", () => {
  test("is made once for all collections of a connection and model, and cached", async () => {
    const { logger, lines } = recording();
    const embedder = new Circle();
    const retriever = new Retriever(both, { embedder, cache: new EmbeddingCache(), logger });
    await retriever.search("0.1");
    await retriever.search("0.1");
    assert.deepEqual(embedder.texts, ["0.1"]);
    assert.deepEqual(
      lines.filter((line) => line.includes("cache hit")),
      [1, 2].map((count) => `Embedding cache hit for circle:m: reused for ${count} collection queries`),
    );
  });

  test("the cache keeps the vectors that were used last", async () => {
    const embedder = new Circle();
    const cache = new EmbeddingCache(2);
    for (const text of ["1", "2", "1", "3", "1", "2"]) {
      await cache.embed(embedder, text, { model: MODEL });
    }
    assert.deepEqual(embedder.texts, ["1", "2", "3", "2"]);
  });

  test("of an archive whose model fails is missing, and only that archive is skipped", async () => {
    const embedder: Embedder = {
      connection: "local",
      embed: (text, { model }) => {
        if (model === "broken") {
          throw new RangeError("model 'broken' is not loaded");
        }
        return point(Number(text));
      },
    };
    const archives = [archive("Handbook", inRagstore), archive("Broken", inRagstore, RAGSTORE, "broken")];
    const found = await new Retriever({ archives }, { embedder }).search("0.1");
    assert.deepEqual([found.passages[0]?.id, found.skipped[0]?.reason], ["a1", "query not embedded"]);
    const alone = new Retriever({ archives: archives.slice(1) }, { embedder });
    const error = await rejection(alone.search("0.1"), EmbeddingFailed);
    assert.equal(error.message, "the query could not be embedded: model 'broken' is not loaded");
    assert.ok(error.cause instanceof RangeError);
  });

  test("comes from an OpenAI-compatible endpoint", async () => {
    await withServer(
      ({ body }, response) => {
        const { input } = JSON.parse(body) as { input: string[] };
        const data = input.map((_, index) => ({ index, embedding: point(index) }));
        reply(response, 200, { data: data.reverse() });
      },
      async (url, received) => {
        for (const suffix of ["", "/", "/v1", "/v1/embeddings"]) {
          const embedder = new EmbeddingsClient(`${url}${suffix}`, { apiKey: "k1" });
          assert.equal(embedder.connection, url);
          const vectors = await embedder.embedMany(["a", "b"], { model: MODEL });
          assert.deepEqual(vectors, [Float32Array.from(point(0)), Float32Array.from(point(1))]);
        }
        assert.deepEqual(
          [...new Set(received.map(({ method, url: path, headers }) => `${method} ${path} ${String(headers.authorization)}`))],
          ["POST /v1/embeddings Bearer k1"],
        );
      },
    );
  });

  test("comes from /embed of TEI, or of a server of one model", async () => {
    for (const shaped of [(vectors: number[][]) => vectors, (vectors: number[][]) => ({ vectors, normalize: true, dim: 2 })]) {
      await withServer(
        ({ body }, response) => {
          const { inputs, normalize } = JSON.parse(body) as { inputs: string[]; normalize: boolean };
          assert.equal(normalize, true);
          reply(response, 200, shaped(inputs.map((_, index) => point(index))));
        },
        async (url, received) => {
          const embedder = new EmbeddingsClient(`${url}/embed/`, { apiKey: "k1" });
          assert.equal(embedder.connection, `${url}/embed`);
          const vectors = await embedder.embedMany(["a", "b"], { model: MODEL });
          assert.deepEqual(vectors, [Float32Array.from(point(0)), Float32Array.from(point(1))]);
          assert.deepEqual(received.map(({ method, url: path }) => `${method} ${path}`), ["POST /embed"]);
        },
      );
    }
  });

  test("that is unusable is an EmbeddingFailed with URL, model and reason, and without the text", async () => {
    const bodies: [number, unknown, RegExp][] = [
      [401, { error: { message: "bad key for: secret text" } }, /HTTP 401/],
      [200, { data: [] }, /0 vectors for 1 texts/],
      [200, {}, /no vectors/],
      [200, { data: [{ embedding: [] }] }, /must not be empty/],
      [200, { data: [{ embedding: "no base64" }] }, /base64/],
      [200, { data: [{ embedding: [null] }] }, /must be numbers/],
    ];
    for (const [status, body, reason] of bodies) {
      await withServer(
        (_, response) => {
          reply(response, status, body);
        },
        async (url) => {
          const error = await rejection(new EmbeddingsClient(url).embed("secret text", { model: "jina" }), EmbeddingFailed);
          assert.match(error.message, reason);
          assert.ok(error.message.includes(`'jina'`) && error.message.includes(`${url}/v1/embeddings`));
          assert.ok(!error.message.includes("secret text") && error.cause instanceof Error);
        },
      );
    }
    const away = new EmbeddingsClient(await closedUrl(), { timeoutMs: 500 });
    assert.match((await rejection(away.embed("x", { model: "jina" }), EmbeddingFailed)).message, /connection refused/);
  });

  test("that takes too long is not awaited, even if the embedder ignores the signal", async () => {
    const embedder: Embedder = {
      connection: "slow",
      embed: async () => {
        await sleep(20_000, undefined, { ref: false });
        return [1];
      },
    };
    const retriever = new Retriever(both, { embedder, settings: { embedTimeoutMs: 50 } });
    assert.match((await rejection(retriever.search("0.1"), EmbeddingFailed)).message, /slow returned no vector within 50 ms/);
  });
});

test("a section and a document are gathered in reading order", async () => {
  const retriever = new Retriever(both, { embedder: new Circle() });
  const { passages } = await retriever.search("0.1", { where: { section_heading: "Heating" }, topK: 1 });
  const [passage] = passages;
  assert.ok(passage);
  const section = await retriever.gatherSection(passage);
  assert.deepEqual(
    section.documents.map(({ id }) => id),
    ["a0", "a1"],
  );
  assert.equal(section.text, "Text of a0.\n\nText of a1.");
  assert.equal((await retriever.gatherDocument(passage)).documents.length, 3);
  const bare = { ...passage, metadata: {} };
  await rejection(retriever.gatherSection(bare), InvalidInput);
});

test("passages are formatted with their source", async () => {
  const retriever = new Retriever(both, { embedder: new Circle() });
  const { passages } = await retriever.search("0.1", { where: { section_heading: "Heating" }, topK: 1 });
  assert.equal(formatPassages(passages), "[1] Archiv: Handbook (Ebene: chunk, Seite: 3, Abschnitt: Heating)\nText of a1.");
  assert.equal(
    formatContext(passages, "en"),
    "Relevant documents from the archives:\n\n[1] Archive: Handbook (Layer: chunk, Page: 3, Section: Heating)\nText of a1.",
  );
  assert.equal(formatPassages([], "en"), "No relevant documents found.");
  assert.throws(() => formatPassages([], "xx"), InvalidConfiguration);
});

test("the strategy of a query is the raw message first, and then the topic", () => {
  const { logger, lines } = recording();
  for (const topic of [undefined, null, "", " \n"]) {
    assert.deepEqual(chooseQuery("What is  InstructLab?", topic, { logger }), {
      text: "What is  InstructLab?",
      strategy: "first message (raw query)",
    });
  }
  assert.deepEqual(chooseQuery("Does it integrate?", " InstructLab\n and OpenShift AI  integration ", { logger }), {
    text: "InstructLab and OpenShift AI integration",
    strategy: "follow-up (contextualized topic)",
  });
  assert.deepEqual(new Set(lines), new Set(["Query strategy: first message (raw query)", "Query strategy: follow-up (contextualized topic)"]));
});

test("retrieval from plain Chroma is loaded and registered only where it is imported", () => {
  const load = (...modules: string[]): { names: string[]; isLoaded: boolean } => {
    const script = `
      ${modules.map((name) => `require(${JSON.stringify(name)});`).join("")}
      const names = require("@ragstore/client/rag").registry.discover().map(({ name }) => name);
      const isLoaded = Object.keys(require.cache).some((path) => /rag.chroma.provider/.test(path));
      console.log(JSON.stringify({ names, isLoaded }));`;
    return JSON.parse(execFileSync(process.execPath, ["-e", script], { encoding: "utf8" })) as { names: string[]; isLoaded: boolean };
  };
  assert.deepEqual(load("@ragstore/client/rag"), { names: ["ragstore"], isLoaded: false });
  assert.deepEqual(load("@ragstore/client/rag/chroma"), { names: ["ragstore", "chroma"], isLoaded: true });
});

describe("providers", () => {
  const connections: [string, object, string][] = [
    ["ragstore", { url: RAGSTORE }, inRagstore],
    ["chroma", { url: CHROMA }, inChroma],
  ];

  test("are discovered with their capabilities and the schema of their configuration", () => {
    const found = registry.discover();
    assert.deepEqual(
      found.map(({ name, title }) => [name, title]),
      [
        ["ragstore", "ragstore"],
        ["chroma", "Chroma"],
      ],
    );
    for (const { capabilities, connectionSchema } of found) {
      assert.deepEqual(capabilities, { collections: true, search: true, embeddings: false, metadataFiltering: true });
      assert.deepEqual([connectionSchema.type, connectionSchema.required], ["object", ["url"]]);
      const secrets = Object.entries(connectionSchema.properties).filter(([, { writeOnly }]) => writeOnly);
      assert.deepEqual(
        secrets.map(([name]) => name),
        [connectionSchema === ChromaProvider.getConnectionSchema() ? "token" : "apiKey"],
      );
    }
  });

  for (const [name, configuration, collection] of connections) {
    test(`${name} has health with details, collections, a search and documents`, async () => {
      const provider = registry.select(name, configuration);
      const health = await provider.health();
      assert.equal(health.status, "healthy");
      assert.ok(health.version && Number.isInteger(health.collectionCount) && !Number.isNaN(Date.parse(health.timestamp)));
      assert.ok((await provider.collections()).includes(collection));
      const found = await provider.search([collection, "absent"], point(0.1), { topK: 2, where: { layer: "chunk" } });
      assert.equal(found.results.length, 2);
      assert.ok(found.results.every((match) => match.collection === collection));
      assert.deepEqual(
        found.errors.map((error) => [error.collection, error.status]),
        [["absent", 404]],
      );
      const documents = await provider.documents(collection, { where: { layer: "chunk" }, limit: 2 });
      assert.deepEqual([documents.length, documents[0]?.metadata.layer], [2, "chunk"]);
    });

    test(`${name} that cannot be reached is unhealthy`, async () => {
      const health = await registry.select(name, { url: await closedUrl(), timeoutMs: 300 }).health();
      assert.deepEqual([health.status, health.error, health.collectionCount], ["unhealthy", "ConnectFailed", null]);
    });

    test(`${name} validates its configuration, and repeats no value`, () => {
      const wrong: [object, RegExp][] = [
        [{}, /required: \$\.url$/],
        [{ url: "secret" }, /must match .*: \$\.url$/],
        [{ url: 5 }, /must be a string: \$\.url$/],
        [{ url: RAGSTORE, timeoutMs: 0 }, /must be greater than 0.*\$\.timeoutMs$/],
        [{ url: RAGSTORE, secret: 1 }, /unknown: \$\.secret$/],
        [null as unknown as object, /must be an object/],
      ];
      for (const [bad, message] of wrong) {
        assert.throws(() => registry.select(name, bad), { name: "InvalidConfiguration", message });
      }
    });
  }

  test("of other services are registered under a name of their own", () => {
    const elsewhere: ProviderClass = {
      id: "elsewhere",
      title: "Elsewhere",
      capabilities: RagstoreProvider.capabilities,
      getConnectionSchema: () => RagstoreProvider.getConnectionSchema(),
      connect: (configuration) => RagstoreProvider.connect(configuration),
    };
    const own = new ProviderRegistry();
    assert.equal(own.register(elsewhere), elsewhere);
    own.register(elsewhere);
    assert.throws(() => own.register({ ...elsewhere }), ProviderExists);
    assert.ok(own.select("elsewhere", { url: RAGSTORE }) instanceof RagstoreProvider);
    assert.throws(() => own.select("nowhere", {}), { name: UnknownProvider.name, message: /registered: elsewhere$/ });
  });
});

describe("configuration", () => {
  test("has the archives of the thread, with defaults", () => {
    const raw = { archives: [{ name: "A", collection_name: "repo_a", chromadb_url: " ", embedding_model: null }] };
    const config = extractRagConfig({ configurable: { rag_config: raw } }, { configurable: { rag_config: { archives: [] } } });
    assert.deepEqual(config?.archives, [{ name: "A", collectionName: "repo_a", chromadbUrl: " " }]);
    assert.deepEqual(new Retriever(config).archives, [
      {
        name: "A",
        collectionName: "repo_a",
        chromadbUrl: "http://chromadb:8000",
        embeddingModel: "jinaai/jina-embeddings-v2-base-de",
      },
    ]);
    assert.equal(extractRagConfig({ configurable: {} }, { configurable: { rag_config: raw } }), undefined);
    assert.equal(extractRagConfig({}, { configurable: { rag_config: raw } })?.archives.length, 1);
    for (const bad of [{ archives: {} }, { archives: [5] }, { archives: [{ name: "A" }] }, 5]) {
      assert.throws(() => extractRagConfig({ configurable: { rag_config: bad } }), /rag_config: .*\$\.archives/);
    }
  });

  test("an archive's URL without a port means port 8000", () => {
    const urls = ["http://chroma", "http://chroma/x", "http://chroma:9", "https://chroma", "http://[::1]"];
    const config = { archives: urls.map((url) => archive("A", "a", url)) };
    assert.deepEqual(
      new Retriever(config).archives.map(({ chromadbUrl }) => chromadbUrl),
      ["http://chroma:8000", "http://chroma:8000/x", "http://chroma:9", "https://chroma", "http://[::1]:8000"],
    );
  });

  test("comes from the environment", () => {
    assert.equal(settingsFromEnv({ RAG_DEFAULT_LAYER: "page" }).defaultLayer, "page");
    assert.deepEqual(settingsFromEnv({ RAG_DEFAULT_TOP_K: " 7 ", RAG_QUERY_TIMEOUT_SECONDS: "0.5", RAGSTORE_API_KEY: "" }), {
      embeddingsUrl: "http://tei-embeddings:8080",
      defaultTopK: 7,
      defaultLayer: "chunk",
      queryTimeoutMs: 500,
      embedTimeoutMs: 10_000,
      apiKey: undefined,
    });
    for (const [name, value] of [
      ["RAG_DEFAULT_TOP_K", "2.5"],
      ["RAG_EMBED_TIMEOUT_SECONDS", "soon"],
      ["RAG_QUERY_TIMEOUT_SECONDS", "0"],
    ] as const) {
      assert.throws(() => settingsFromEnv({ [name]: value }), { name: InvalidConfiguration.name, message: new RegExp(name) });
    }
  });
});
