/** The client against real services, whose URLs are in `RAGSTORE_TEST_*_URL`. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import {
  Client,
  Conflict,
  GatewayTimeout,
  BadRequest,
  IngestionReport,
  InvalidInput,
  NotFound,
  PayloadTooLarge,
  type Progress,
  Unavailable,
  UnsupportedMediaType,
  type Where,
} from "@ragstore/client";

import { collect, DIMENSION, document, documents, serviceUrl, rejection, vector, withCollection } from "./support.js";

const COUNT = 5000;
const BATCH = 250;
const CONCURRENCY = 3;
const NO_RETRIES = { retries: { attempts: 1 } };

const client = new Client(serviceUrl("RAGSTORE_TEST_URL"));

test("embedded Chroma rebuilds an index in place, a Chroma server does not", () =>
  withCollection(client, async (name) => {
    await client.upsertDocuments(name, [...documents(20)]);
    assert.equal((await rejection(client.getRebuild(name), NotFound)).code, "rebuild_not_found");
    const started = await client.startRebuild(name, { sample: 20, hnsw: { efSearch: 120 } }).catch((error: unknown) => error);
    if (started instanceof Conflict) {
      assert.equal(started.code, "rebuild_unsupported");
      return;
    }
    let state = await client.getRebuild(name);
    while (state.status === "running") {
      await sleep(50);
      state = await client.getRebuild(name);
    }
    assert.deepEqual([state.status, state.done, state.after], ["completed", 20, { sampled: 20, lost: 0 }]);
    const { hnsw, count } = await client.getCollection(name);
    assert.deepEqual([hnsw, count], [{ efSearch: 120 }, 20]);
  }));

describe("5,000 documents", () => {
  const name = `node-${randomUUID()}`;
  const seen: Progress[] = [];

  before(async () => {
    await client.createCollection(name, { metadata: { language: "en" }, embeddingModel: "made-up" });
    // One request at a time, because the tests below rely on the order of insertion.
    const summary = await client.ingestAll(name, documents(COUNT), {
      concurrency: 1,
      batchDocuments: BATCH,
      onProgress: (progress) => {
        seen.push(progress);
      },
    });
    const requests = COUNT / BATCH;
    assert.deepEqual(summary, new IngestionReport({ read: COUNT, stored: COUNT, failed: 0, requests }, []));
  });

  after(() => client.deleteCollection(name));

  test("progress is reported after each batch", () => {
    assert.deepEqual(
      seen.map(({ stored }) => stored),
      Array.from({ length: COUNT / BATCH }, (_, batch) => (batch + 1) * BATCH),
    );
    assert.ok(seen.every(({ read, stored, failed }) => read >= stored && failed === 0));
  });

  test("the collection counts them", async () => {
    const collection = await client.getCollection(name);
    assert.equal(collection.count, COUNT);
    assert.equal(collection.dimension, DIMENSION);
    assert.deepEqual(collection.metadata, { language: "en", embedding_model: "made-up" });
  });

  test("ingesting again changes nothing, and every document has an outcome in order", async () => {
    const outcomes = await collect(client.ingest(name, documents(200), { batchDocuments: 60 }));
    assert.ok(outcomes.every(({ stored }) => stored));
    assert.deepEqual(
      outcomes.map(({ index, id }) => `${index} ${id}`),
      Array.from({ length: 200 }, (_, number) => `${number} handbook:chunk:${number}`),
    );
    assert.equal((await client.getCollection(name)).count, COUNT);
  });

  test("embeddings are returned as they were sent", async () => {
    const { embedding } = await client.getDocument(name, "handbook:chunk:17", { includeEmbeddings: true });
    assert.equal(embedding?.length, DIMENSION);
    // With the cosine distance, Chroma stores unit vectors: the last bit may differ.
    assert.ok(vector(17).every((value, index) => Math.abs(value - (embedding[index] ?? 9)) < 1e-6));
    const plain = await client.getDocument(name, "handbook:chunk:17");
    assert.deepEqual(plain.metadata, { layer: "chunk", page_number: 17, draft: false });
    assert.equal(plain.embedding, undefined);
  });

  const filters: [string, Where, (number: number) => boolean][] = [
    ["equality", { layer: "section" }, (n) => n % 5 === 0],
    ["$eq and $ne", { layer: { $eq: "chunk" }, page_number: { $ne: 3 } }, (n) => n % 5 !== 0 && n % 100 !== 3],
    ["two operators on a field", { page_number: { $gte: 10, $lt: 12 } }, (n) => n % 100 === 10 || n % 100 === 11],
    ["$gt and $lte", { $and: [{ page_number: { $gt: 97 } }, { page_number: { $lte: 98 } }] }, (n) => n % 100 === 98],
    ["$in", { page_number: { $in: [1, 2] } }, (n) => n % 100 === 1 || n % 100 === 2],
    ["$nin", { layer: { $nin: ["chunk"] } }, (n) => n % 5 === 0],
    ["$or", { $or: [{ page_number: 4 }, { page_number: 5, draft: true }] }, (n) => n % 100 === 4],
    ["nothing", { layer: "no such" }, () => false],
  ];
  for (const [what, where, selects] of filters) {
    test(`listing by filter: ${what}`, async () => {
      const expected = Array.from({ length: COUNT }, (_, number) => number).filter(selects);
      const page = await client.listDocuments(name, { where, limit: 20 });
      assert.equal(page.total, expected.length);
      assert.equal(page.count, Math.min(20, expected.length));
      assert.deepEqual(
        page.documents.map(({ id }) => id),
        expected.slice(0, 20).map((number) => `handbook:chunk:${number}`),
      );
    });
  }

  test("listing by text and by ids", async () => {
    const byText = await client.listDocuments(name, { whereDocument: { $contains: "Passage 4999 " } });
    assert.deepEqual([byText.total, byText.documents[0]?.id], [1, "handbook:chunk:4999"]);
    const byIds = await client.listDocuments(name, { ids: ["handbook:chunk:2", "handbook:chunk:1", "none"] });
    assert.deepEqual(byIds.documents.map(({ id }) => id).sort(), ["handbook:chunk:1", "handbook:chunk:2"]);
  });

  test("a page after a cursor follows the previous page, and has its total", async () => {
    for (const where of [undefined, { draft: true }]) {
      const first = await client.listDocuments(name, { where, limit: 10 });
      const second = await client.listDocuments(name, { where, limit: 10, after: first.next });
      const both = await client.listDocuments(name, { where, limit: 20 });
      assert.deepEqual([...first.documents, ...second.documents], both.documents);
      assert.equal(second.total, both.total);
      assert.equal(second.next, both.next);
    }
  });

  test("the page that follows a list of several requests begins after its last document", async () => {
    const { next } = await client.listDocuments(name, { limit: 1500, includeTexts: false });
    const { documents, total } = await client.listDocuments(name, { limit: 1, after: next });
    assert.deepEqual([documents[0]?.id, total], ["handbook:chunk:1500", COUNT]);
  });

  test("the last page has no cursor, and a cursor of another list is refused", async () => {
    assert.equal("next" in (await client.listDocuments(name, { limit: 10, offset: COUNT - 10 })), false);
    const error = await rejection(client.listDocuments(name, { after: "none" }), BadRequest);
    assert.equal(error.code, "invalid_cursor");
  });

  test("pages, with and without totals", async () => {
    const second = await client.listDocuments(name, { limit: 10, offset: 10 });
    assert.deepEqual([second.count, second.total], [10, COUNT]);
    assert.equal(second.documents[0]?.id, "handbook:chunk:10");
    const uncounted = await client.listDocuments(name, { limit: 1, total: false, includeEmbeddings: true });
    assert.equal(uncounted.total, null);
    assert.equal(typeof uncounted.next, "string");
    assert.equal(uncounted.documents[0]?.embedding?.length, DIMENSION);
    const all = await collect(client.iterDocuments(name, { where: { draft: true }, pageSize: 700, offset: 1 }));
    assert.deepEqual([all.length, all[0]?.id, all.at(-1)?.id], [2499, "handbook:chunk:2", "handbook:chunk:4998"]);
  });

  test("metadata values", async () => {
    assert.deepEqual((await client.metadataValues(name, "layer")).values, ["chunk", "section"]);
    assert.equal((await client.metadataValues(name, "page_number", { limit: 7 })).count, 7);
    const typed = (await client.metadataValues(name, "page_number", { limit: 3, typed: true })).typed_values ?? [];
    assert.equal(typed.length, 3);
    assert.ok(typed.every((value) => typeof value === "number"));
  });

  test("queries", async () => {
    const found = await client.query(name, vector(42), { topK: 3 });
    assert.equal(found.count, 3);
    assert.equal(found.results[0]?.id, "handbook:chunk:42");
    assert.ok(found.results[0].score > 0.999);
    assert.equal(found.collectionMetadata.language, "en");

    const filtered = await client.query(name, Array.from(vector(42)), {
      topK: 10,
      where: { layer: "section", page_number: { $lt: 50 } },
      whereDocument: { $contains: "handbook" },
      includeEmbeddings: true,
    });
    assert.equal(filtered.count, 10);
    for (const { metadata, embedding } of filtered.results) {
      assert.equal(metadata.layer, "section");
      assert.equal(embedding?.length, DIMENSION);
    }
    assert.equal((await client.query(name, vector(42), { minScore: 0.999 })).count, 1);
  });

  test("queries of several collections", async () => {
    await withCollection(client, async (other) => {
      await client.upsertDocuments(other, [document(42), document(7)]);
      const found = await client.queryCollections([name, other, "missing"], vector(42), { topK: 2 });
      assert.deepEqual(found.results.map(({ collection }) => collection).sort(), [name, other].sort());
      assert.deepEqual(
        found.errors?.map(({ collection, status, code }) => [collection, status, code]),
        [["missing", 404, "collection_not_found"]],
      );
    });
  });
});

test("a map has the nearest neighbours of each document", async () => {
  await withCollection(client, async (name) => {
    await client.upsertDocuments(name, documents(20, 8));
    const { ids, x, y, neighbours, distances, color, total, asOf } = await client.mapCollection(name, { points: 10, color: "layer" });
    assert.deepEqual([ids.length, x.length, y.length, color?.length, total], [10, 10, 10, 10, 20]);
    assert.ok(neighbours.every((row, index) => row.length === 9 && !row.includes(index)));
    assert.ok(distances.every((row) => row.every((distance, index) => index === 0 || distance >= (row[index - 1] ?? 0))));
    assert.ok(Math.abs(Date.now() - Date.parse(asOf)) < 60_000);
    const filtered = await client.collection(name).map({ where: { layer: "section" } });
    assert.deepEqual([filtered.color, filtered.total], [null, filtered.ids.length]);
  });
});

test("documents are read ahead only for requests in flight", async () => {
  await withCollection(client, async (name) => {
    let pulled = 0;
    let ahead = 0;
    let done = 0;
    async function* source() {
      for (const made of documents(COUNT, 4)) {
        ahead = Math.max(ahead, pulled - done);
        pulled += 1;
        if (pulled % 1000 === 0) {
          await sleep(1);
        }
        yield made;
      }
    }
    const { stored } = await client.ingestAll(name, source(), {
      concurrency: CONCURRENCY,
      batchDocuments: BATCH,
      onProgress: (progress) => {
        done = progress.stored + progress.failed;
      },
    });
    assert.equal(stored, COUNT);
    assert.ok(ahead <= CONCURRENCY * BATCH, `${ahead} were read ahead`);
    assert.ok(ahead > BATCH, "only one request was in flight");
  });
});

test("deleting", async () => {
  await withCollection(client, async (name) => {
    await client.ingestAll(name, documents(100, 4));
    const byIds = await client.deleteDocuments(name, { ids: ["handbook:chunk:1", "handbook:chunk:2", "none"] });
    assert.equal(byIds.count, 2);
    assert.equal((await client.deleteDocuments(name, { where: { layer: "section" } })).count, 20);
    const both = await client.deleteDocuments(name, {
      ids: ["handbook:chunk:3", "handbook:chunk:4"],
      where: { draft: true },
    });
    assert.equal(both.count, 1);
    assert.equal((await client.listDocuments(name)).total, 77);
    assert.equal((await client.emptyCollection(name)).countDeleted, 77);
    assert.equal((await client.getCollection(name)).count, 0);
  });
});

test("a collection's handle has its calls", async () => {
  const handle = client.collection(`node-${randomUUID()}`);
  assert.equal(await handle.exists(), false);
  const created = await handle.create({ distance: "l2", hnsw: { efSearch: 200 } });
    assert.deepEqual((await handle.get()).hnsw, { efSearch: 200 });
    const listed = await collect(client.iterCollections());
    assert.deepEqual(listed.find((each) => each.name === handle.name)?.hnsw, { efSearch: 200 });
  assert.deepEqual([created.name, created.distance], [handle.name, "l2"]);
  try {
    assert.equal(await handle.exists(), true);
    await handle.addDocuments([document(0, 4)]);
    await handle.upsertDocuments(documents(10, 4));
    assert.equal((await collect(handle.ingest(documents(20, 4)))).length, 20);
    assert.equal((await handle.ingestAll(documents(30, 4))).stored, 30);
    assert.deepEqual([await handle.count(), await handle.count({ where: { layer: "section" } })], [30, 6]);
    assert.equal((await handle.get()).count, 30);
    assert.equal((await handle.listDocuments({ limit: 3 })).count, 3);
    assert.equal((await collect(handle.iterDocuments({ pageSize: 7 }))).length, 30);
    assert.equal((await handle.getDocument("handbook:chunk:3")).id, "handbook:chunk:3");
    assert.equal((await handle.query(vector(3, 4), { topK: 1 })).results[0]?.id, "handbook:chunk:3");
    assert.deepEqual((await handle.metadataValues("layer")).values, ["chunk", "section"]);
    assert.equal((await handle.updateMetadata({ edition: 2 })).metadata.edition, 2);
    assert.equal((await handle.updateDocuments({ "handbook:chunk:3": { page_number: 7 } })).count, 1);
    assert.equal(await handle.documentExists("handbook:chunk:3"), true);
    assert.equal((await handle.deleteDocuments({ ids: ["handbook:chunk:3"] })).count, 1);
    assert.equal(await handle.documentExists("handbook:chunk:3"), false);
    assert.equal((await handle.empty()).countDeleted, 29);
  } finally {
    await handle.delete();
  }
  const error = await rejection(client.createCollection(handle.name, { hnsw: { ef_search: 3 } as object }), InvalidInput);
  assert.match(error.message, /hnsw: unknown option 'ef_search'; the option is 'efSearch'/);
});

test("documents by their ids, however many, in their order", async () => {
  await withCollection(client, async (name) => {
    await client.ingestAll(name, documents(1300, 2));
    const ids = Array.from({ length: 1300 }, (_, number) => `handbook:chunk:${1299 - number}`);
    const found = await client.getDocuments(name, [...ids, "missing"], { includeEmbeddings: true });
    assert.deepEqual(
      found.map(({ id }) => id),
      ids,
    );
    assert.equal(found[0]?.embedding?.length, 2);
    assert.equal((await client.listDocuments(name, { ids: ids.slice(0, 300) })).count, 300);
    assert.equal((await client.listDocuments(name, { limit: 1200 })).count, 1200);
  });
});

test("the metadata of documents are changed, and nothing else", async () => {
  await withCollection(client, async (name) => {
    const id = "handbook:chunk:1";
    await client.upsertDocuments(name, documents(3, 4));
    const before = await client.getDocument(name, id, { includeEmbeddings: true });
    const merged = await client.updateDocuments(name, { [id]: { draft: null, edition: 2 } });
    assert.deepEqual([merged.count, merged.mode], [1, "merge"]);
    const metadata = { layer: "chunk", page_number: 1, edition: 2 };
    assert.deepEqual(await client.getDocument(name, id, { includeEmbeddings: true }), { ...before, metadata });
    await client.updateDocuments(name, new Map([[id, { edition: 3 }]]), { replace: true });
    assert.deepEqual((await client.getDocument(name, id)).metadata, { edition: 3 });
    const missing = await rejection(client.updateDocuments(name, { [id]: { edition: 4 }, none: {} }), NotFound);
    assert.equal(missing.code, "documents_not_found");
    const wrong = await rejection(client.updateDocuments(name, { [id]: { edition: Number.NaN } }), InvalidInput);
    assert.match(wrong.message, /\$\.documents\[0\]\.metadata\.edition$/);
    assert.deepEqual((await client.getDocument(name, id)).metadata, { edition: 3 });
  });
});

test("documents that are deleted during an iteration hide no other", async () => {
  await withCollection(client, async (name) => {
    await client.upsertDocuments(name, documents(9, 4));
    const ids = Array.from(documents(9, 4), ({ id }) => String(id));
    const iterator = client.iterDocuments(name, { pageSize: 3 });
    const found = [(await iterator.next()).value?.id];
    await client.deleteDocuments(name, { ids: ids.slice(0, 2) });
    assert.deepEqual([...found, ...(await collect(iterator)).map(({ id }) => id)], ids);
    const last = client.iterDocuments(name, { pageSize: 3 });
    await last.next();
    await client.deleteDocuments(name, { ids: ids.slice(5, 6) });
    assert.equal((await collect(last)).at(-1)?.id, ids[8]);
  });
});

test("texts are left out on request", async () => {
  await withCollection(client, async (name) => {
    await client.upsertDocuments(name, documents(3, 4));
    const without = { includeTexts: false };
    const found = [
      ...(await client.listDocuments(name, without)).documents,
      ...(await client.listDocuments(name, { ...without, where: { draft: true } })).documents,
      ...(await collect(client.iterDocuments(name, without))),
      ...(await client.getDocuments(name, ["handbook:chunk:1"], without)),
      ...(await client.query(name, vector(1, 4), without)).results,
      ...(await client.queryCollections([name], vector(1, 4), without)).results,
    ];
    assert.equal(found.length, 3 + 2 + 3 + 1 + 3 + 3);
    assert.ok(found.every(({ text }) => text === ""));
  });
});

test("several queries in one call have their results in order", async () => {
  await withCollection(client, async (name) => {
    await client.ingestAll(name, documents(50, 8));
    const numbers = Array.from({ length: 20 }, (_, number) => number * 2);
    const found = await client.queryBatch(name, numbers.map((number) => vector(number, 8)), { topK: 1 });
    assert.deepEqual(
      found.map(({ results }) => results[0]?.id),
      numbers.map((number) => `handbook:chunk:${number}`),
    );
  });
});

test("collections are iterated over by pages", async () => {
  await withCollection(client, async (first) => {
    await withCollection(client, async (second) => {
      const names: string[] = [];
      for await (const { name, count } of client.iterCollections({ pageSize: 1 })) {
        names.push(name);
        assert.notEqual(count, null);
      }
      assert.ok(names.includes(first) && names.includes(second));
      assert.equal(new Set(names).size, names.length);
    });
  });
});

test("ids of any kind", async () => {
  await withCollection(client, async (name) => {
    const ids = [".", "..", "a/../b", "50 %", "Straße:§ 7?#", "all", "filter", "delete", "stream", "😀"];
    await client.addDocuments(
      name,
      ids.map((id) => ({ id, text: id, embedding: [1, 2] })),
    );
    for (const id of ids) {
      assert.equal((await client.getDocument(name, id)).text, id);
    }
    assert.equal((await client.deleteDocuments(name, { ids })).count, ids.length);
    for (const missing of ["..", "missing"]) {
      assert.equal((await rejection(client.getDocument(name, missing), NotFound)).code, "document_not_found");
    }
  });
});

test("collections and their metadata", async () => {
  await withCollection(client, async (name) => {
    const created = await client.createCollection(name, { getOrCreate: true });
    assert.equal(created.status, "exists");
    const replaced = await client.updateCollectionMetadata(name, { language: "en", edition: 2 }, { merge: false });
    assert.deepEqual([replaced.merge, replaced.metadata], [false, { language: "en", edition: 2 }]);
    const merged = await client.updateCollectionMetadata(name, { edition: null, reviewed: true });
    assert.deepEqual([merged.merge, merged.metadata], [true, { language: "en", reviewed: true }]);
    const listed = await client.listCollections({ limit: 1 });
    assert.equal(listed.count, 1);
    const count = async (options?: { counts: boolean }): Promise<number | null | undefined> =>
      (await client.listCollections(options)).collections.find((collection) => collection.name === name)?.count;
    assert.deepEqual([await count(), await count({ counts: true }), await count({ counts: false })], [0, 0, null]);
  });
});

test("service info and health", async () => {
  assert.equal((await client.info()).name, "ragstore");
  assert.equal((await client.health()).status, "healthy");
  assert.equal((await client.ready()).status, "ready");
  assert.equal((await client.live()).status, "alive");
  assert.match(await client.metrics(), /^# HELP /m);
  assert.match(await client.openapi(), /^\{/);
});

describe("errors of the contract", () => {
  test("400 has the path of the invalid field, and a code", async () => {
    await withCollection(client, async (name) => {
      const good = { id: "a", text: "x", embedding: [1, 2] };
      const wrong = await rejection(
        client.upsertDocuments(name, [good, good]),
        BadRequest,
      );
      assert.deepEqual([wrong.status, wrong.code], [400, "invalid_documents"]);
      assert.deepEqual(
        wrong.errors.map(({ path }) => path),
        ["$.documents[1].id"],
      );
      assert.ok(wrong.requestId);

      await client.upsertDocuments(name, [good]);
      const dimension = await rejection(client.query(name, [1, 2, 3]), BadRequest);
      assert.equal(dimension.code, "dimension_mismatch");
      assert.match(dimension.detail, /2.*3|3.*2/);
      const filter = await rejection(
        client.listDocuments(name, { where: { page: { $gte: "no number" } } as unknown as Where }),
        BadRequest,
      );
      assert.equal(filter.code, "invalid_filter");
      await rejection(client.addDocuments(name, []), BadRequest);
      await rejection(client.createCollection("no"), BadRequest);
    });
  });

  test("404 has the collection's name", async () => {
    const { status, code, detail } = await rejection(client.getCollection("nowhere"), NotFound);
    assert.deepEqual([status, code, detail], [404, "collection_not_found", "Collection 'nowhere' not found"]);
    await rejection(client.ingestAll("nowhere", documents(3)), NotFound);
    await rejection(client.query("nowhere", [1]), NotFound);
    await rejection(client.deleteCollection("nowhere"), NotFound);
  });

  test("409 lists the ids, and nothing is written", async () => {
    await withCollection(client, async (name) => {
      await client.addDocuments(name, [document(1)]);
      const conflict = await rejection(client.addDocuments(name, [document(1), document(2)]), Conflict);
      assert.deepEqual([conflict.status, conflict.code], [409, "documents_exist"]);
      assert.match(conflict.detail, /'handbook:chunk:1'/);
      assert.equal((await client.getCollection(name)).count, 1);
      assert.equal((await rejection(client.createCollection(name), Conflict)).code, "collection_exists");
    });
  });

  test("rejected documents fail alone", async () => {
    await withCollection(client, async (name) => {
      await client.addDocuments(name, [document(5, 4)]);
      const made = [...documents(40, 4)];
      made[30] = { ...document(30, 4), embedding: [1, 2, 3] };
      const outcomes = await collect(client.ingest(name, made, { mode: "add" }));
      const failed = outcomes.filter(({ stored }) => !stored);
      assert.deepEqual(
        failed.map(({ index, error }) => [index, error?.constructor]),
        [
          [5, Conflict],
          [30, BadRequest],
        ],
      );
      assert.equal((await client.getCollection(name)).count, 39);
    });
  });

  const bad: [string, ReadonlySet<number>, object][] = [
    ["one document with a wrong dimension, the first of a new collection", new Set([0]), { embedding: [1, 2, 3] }],
    ["250 documents in a batch", new Set(Array.from({ length: 250 }, (_, n) => n * 3)), { metadata: { "": 1 } }],
  ];
  for (const [which, indexes, spoil] of bad) {
    test(`of 1,500 documents, exactly the bad ones fail: ${which}`, async () => {
      await withCollection(client, async (name) => {
        const made = [...documents(1500, 8)].map((one, index) => (indexes.has(index) ? { ...one, ...spoil } : one));
        const report = await client.ingestAll(name, made, { concurrency: 1 });
        assert.deepEqual(
          report.failures.map(({ index, id, error }) => [index, id, error.constructor]),
          Array.from(indexes, (index) => [index, `handbook:chunk:${index}`, BadRequest]),
        );
        for (const { index, error } of report.failures) {
          assert.ok(error.message.startsWith(`document ${index} ('handbook:chunk:${index}'): `), error.message);
          assert.ok(error.message.includes(`$.documents[${index}]`), error.message);
        }
        assert.equal((await client.getCollection(name)).count, 1500 - indexes.size);
      });
    });
  }

  test("413", async () => {
    const small = new Client(serviceUrl("RAGSTORE_TEST_AWAY_URL"), NO_RETRIES);
    const tooLarge = await rejection(small.upsertDocuments("anything", documents(40)), PayloadTooLarge);
    assert.deepEqual([tooLarge.status, tooLarge.code], [413, "body_too_large"]);
  });

  test("415", async () => {
    const asText = new Client(serviceUrl("RAGSTORE_TEST_URL"), {
      fetch: (request) => {
        request.headers.set("content-type", "text/plain");
        return fetch(request);
      },
    });
    await rejection(asText.upsertDocuments("nowhere", documents(1)), UnsupportedMediaType);
  });

  test("503 has a Retry-After", async () => {
    const away = new Client(serviceUrl("RAGSTORE_TEST_AWAY_URL"), NO_RETRIES);
    const unavailable = await rejection(away.getCollection("anything"), Unavailable);
    assert.equal(unavailable.code, "chroma_unavailable");
    assert.ok(unavailable.retryAfterMs !== undefined && unavailable.retryAfterMs >= 1000);
    assert.equal((await away.health()).status, "unhealthy");
    assert.equal((await away.ready()).status, "unready");
  });

  test("a slow Chroma is a 504", async () => {
    const slow = new Client(serviceUrl("RAGSTORE_TEST_SLOW_URL"), NO_RETRIES);
    await rejection(slow.getCollection("anything"), GatewayTimeout);
  });
});
