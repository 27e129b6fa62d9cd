// The calls of a typical application. Nothing here is Node's: it runs in Node, Bun, Deno and a browser.
import { Client, ConnectFailed, NotFound, TransportError } from "@ragstore/client";

/** Runs the scenario against a service, and returns what it found. */
export async function run(url, closedUrl) {
  const client = new Client(url);
  const collection = client.collection(`everywhere-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`);
  async function* documents() {
    for (let number = 0; number < 300; number++) {
      const embedding = number === 7 ? [1, 2, 3] : Float32Array.of(Math.cos(number), Math.sin(number));
      yield { id: `d${number}`, text: `Passage ${number}: ä`, embedding, metadata: { number } };
    }
  }
  await collection.create({ metadata: { language: "en" } });
  try {
    await collection.upsertDocuments([{ id: "first", text: "First", embedding: [1, 0] }]);
    const report = await collection.ingestAll(documents(), { batchDocuments: 100 });
    const { results } = await collection.query([Math.cos(42), Math.sin(42)], { topK: 1, where: { number: { $gt: 5 } } });
    const listed = [];
    for await (const { id } of collection.iterDocuments({ pageSize: 64 })) {
      listed.push(id);
    }
    return {
      stored: report.stored,
      failed: report.failures.map(({ index, id, error }) => `${index} ${id} ${error.name}`),
      nearest: `${results[0].id} ${results[0].text}`,
      listed: listed.length,
      count: await collection.count({ where: { number: { $lt: 10 } } }),
      missing: await collection.getDocument("none").catch((error) => error instanceof NotFound && error.code),
      refused: await refusal(closedUrl),
    };
  } finally {
    await collection.delete();
  }
}

// A browser does not say why a connection failed.
async function refusal(url) {
  try {
    return await new Client(url, { retries: 0 }).info();
  } catch (error) {
    return [error instanceof TransportError, error instanceof ConnectFailed, error.message.startsWith(`GET ${url}/: `)].join();
  }
}
