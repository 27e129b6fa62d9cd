/** The vector store of LangChain.js, against a real service. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";

import { Document } from "@langchain/core/documents";
import { SyntheticEmbeddings } from "@langchain/core/utils/testing";
import { Client, IngestionFailed, InvalidInput } from "@ragstore/client";
import { RagstoreVectorStore } from "@ragstore/client/langchain";

import { rejection, serviceUrl } from "./support.js";

const client = new Client(serviceUrl("RAGSTORE_TEST_URL"));
const embeddings = new SyntheticEmbeddings({ vectorSize: 32 });
const TEXTS = ["The boiler is serviced every October.", "Rent is due on the third.", "Keys are handed over."];

async function withStore<T>(use: (store: RagstoreVectorStore, collection: string) => Promise<T>): Promise<T> {
  const collectionName = `langchain-${randomUUID()}`;
  const metadatas = TEXTS.map((_, page) => ({ page, loc: { lines: { from: page } } }));
  const store = await RagstoreVectorStore.fromTexts(TEXTS, metadatas, embeddings, { client, collectionName, embeddingModel: "made-up" });
  try {
    return await use(store, collectionName);
  } finally {
    await client.deleteCollection(collectionName);
  }
}

describe("a vector store", () => {
  test("creates its collection and finds what was added", async () => {
    await withStore(async (store, name) => {
      const [first] = await store.similaritySearch(TEXTS[1] ?? "", 1);
      assert.deepEqual([first?.pageContent, first?.metadata], [TEXTS[1], { page: 1, "loc.lines.from": 1 }]);
      const scored = await store.similaritySearchWithScore(TEXTS[1] ?? "", 3);
      assert.ok((scored[0]?.[1] ?? 0) > 0.999 && (scored[0]?.[1] ?? 0) >= (scored[2]?.[1] ?? 9));
      assert.equal((await client.getCollection(name)).metadata.embedding_model, "made-up");
      assert.equal(store._vectorstoreType(), "ragstore");
    });
  });

  test("filters with ragstore's language, also as a retriever", async () => {
    await withStore(async (store) => {
      const filter = { page: { $gte: 1 }, "loc.lines.from": { $lt: 2 } };
      const found = await store.similaritySearch(TEXTS[0] ?? "", 3, filter);
      assert.deepEqual(
        found.map(({ pageContent }) => pageContent),
        [TEXTS[1]],
      );
      assert.equal((await store.asRetriever({ k: 3, filter }).invoke("x")).length, 1);
    });
  });

  test("adds with ids, replaces, and deletes", async () => {
    await withStore(async (store, name) => {
      const made = [new Document({ pageContent: "One", id: "own" }), new Document({ pageContent: "Two" })];
      const [own, random] = await store.addDocuments(made);
      assert.ok(own === "own" && random && random !== "own");
      assert.deepEqual(await store.addDocuments(made, { ids: ["own", "given"] }), ["own", "given"]);
      assert.equal(await client.count(name), 6);
      await store.delete({ ids: ["own", "given"] });
      await store.delete({ where: { page: 0 } });
      assert.equal(await client.count(name), 3);
      await rejection(store.addVectors([[1]], made), InvalidInput);
    });
  });

  test("a rejected document fails alone", async () => {
    await withStore(async (store, name) => {
      const made = [new Document({ pageContent: "Good", id: "good" }), new Document({ pageContent: "Bad", id: "bad", metadata: { when: new Date() } })];
      const error = await rejection(store.addDocuments(made), IngestionFailed);
      assert.match(error.message, /document 1 \('bad'\): .*metadata\.when/);
      assert.equal((await client.getDocument(name, "good")).text, "Good");
    });
  });

  test("finds documents that differ from each other", async () => {
    await withStore(async (store) => {
      await store.addDocuments([new Document({ pageContent: TEXTS[0] ?? "", metadata: { copy: true } })]);
      const query = TEXTS[0] ?? "";
      const nearest = await store.similaritySearch(query, 2);
      assert.ok(nearest.every(({ pageContent }) => pageContent === query));
      const varied = await store.maxMarginalRelevanceSearch(query, { k: 2, fetchK: 4, lambda: 0.1 });
      assert.equal(new Set(varied.map(({ pageContent }) => pageContent)).size, 2);
    });
  });

  test("serialises without its client's key", async () => {
    const secret = new Client("http://127.0.0.1:9999", { apiKey: "s3cret" });
    const store = new RagstoreVectorStore(embeddings, { client: secret, collectionName: "abc" });
    assert.ok(!JSON.stringify(store).includes("s3cret"));
    await Promise.resolve();
  });
});
