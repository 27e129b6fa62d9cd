/** The vector store of LangChain.js, against a real service. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";

import { Document } from "@langchain/core/documents";
import { SyntheticEmbeddings } from "@langchain/core/utils/testing";
import { Client, EmbeddingFailed, IngestionFailed, InvalidInput } from "@ragstore/client";
import { createArchiveSearchTool, RagstoreVectorStore, type SearchArtifact } from "@ragstore/client/langchain";
import { type Embedder, type RagSettings, Retriever } from "@ragstore/client/rag";

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

describe("the search tool of an agent", () => {
  const embedder: Embedder = { connection: "synthetic", embed: async (text) => await embeddings.embedQuery(text) };
  const archive = (name: string, collectionName: string) => ({
    name,
    collectionName,
    chromadbUrl: serviceUrl("RAGSTORE_TEST_URL"),
    embeddingModel: "made-up",
  });

  async function call(retriever: Retriever, args: unknown, language = "en"): Promise<{ content: string; artifact: SearchArtifact }> {
    const tool = createArchiveSearchTool(retriever, { language });
    const sent = { type: "tool_call" as const, id: "1", name: "search_archives", args: args as Record<string, unknown> };
    const message = (await tool.invoke(sent)) as { content: string; artifact: SearchArtifact };
    return message;
  }

  test("returns text for the model and passages for the program", async () => {
    await withStore(async (_, name) => {
      const retriever = new Retriever({ archives: [archive("Handbook", name)] }, { embedder });
      const { content, artifact } = await call(retriever, { query: TEXTS[1], top_k: 1 }, "de");
      assert.equal(content, `[1] Archiv: Handbook\n${String(TEXTS[1])}`);
      const [hit] = artifact.hits;
      assert.deepEqual([hit?.citation, hit?.archive, hit?.collection, hit?.text], ["[1]", "Handbook", name, TEXTS[1]]);
      assert.ok(hit?.id && hit.score > 0.999 && artifact.hits.length === 1 && artifact.notSearched.length === 0);
    });
  });

  test("searches the layer and the number of passages of the retriever's settings", async () => {
    await withStore(async (_, name) => {
      const vector = await embeddings.embedQuery("keys");
      const layers = ["chunk", "chunk", "chunk", "page"];
      await client.upsertDocuments(
        name,
        layers.map((layer, id) => ({ id: `${layer}-${id}`, text: `${layer} ${id}`, embedding: vector, metadata: { layer, chunk_index: id } })),
      );
      const archives = [archive("Handbook", name)];
      const found = async (settings: Partial<RagSettings>): Promise<unknown[]> => {
        const { artifact } = await call(new Retriever({ archives }, { embedder, settings }), { query: "keys" });
        return artifact.hits.map(({ metadata }) => metadata.layer);
      };
      assert.deepEqual(await found({ defaultTopK: 2 }), ["chunk", "chunk"]);
      assert.deepEqual(await found({ defaultLayer: "page" }), ["page"]);
      assert.equal((await found({ defaultLayer: "*" })).length, 5);
    });
  });

  test("takes arguments as models send them", async () => {
    await withStore(async (_, name) => {
      const retriever = new Retriever({ archives: [archive("Handbook", name)] }, { embedder });
      const found = async (args: unknown): Promise<number> => (await call(retriever, args)).artifact.hits.length;
      assert.equal(await found({ query: "keys", top_k: "2" }), 2);
      assert.equal(await found({ query: "keys", top_k: 2.0, archive: "Handbook" }), 2);
      assert.equal(await found({ query: "keys", top_k: 1000 }), 3);
      assert.equal(await found({ query: ["keys", "rent"], top_k: null }), 3);
      assert.equal(await found({ query: "keys", top_k: "many" }), 3);
      for (const missing of [{}, { query: null }, { top_k: 2 }]) {
        assert.match((await call(retriever, missing)).content, /argument query is missing/);
      }
    });
  });

  test("names the archives that were not searched, and says so when a search failed", async () => {
    await withStore(async (_, name) => {
      const archives = [archive("Handbook", name), archive("Absent", "absent")];
      const { content, artifact } = await call(new Retriever({ archives }, { embedder }), { query: "keys" });
      assert.ok(content.endsWith("\n\nNot searched: Absent (does not exist)."));
      assert.deepEqual(artifact.notSearched, [{ archive: "Absent", collection: "absent", reason: "collection not found" }]);
      const failing: Embedder = {
        connection: "failing",
        embed: () => {
          throw new EmbeddingFailed("no model");
        },
      };
      const failed = await call(new Retriever({ archives }, { embedder: failing }), { query: "keys" });
      assert.deepEqual([failed.content, failed.artifact.hits], ["Archive search failed", []]);
    });
  });

  test("cannot be made in a language without texts", () => {
    assert.throws(() => createArchiveSearchTool(new Retriever({ archives: [] }, { embedder }), { language: "xx" }), /xx/);
  });
});
