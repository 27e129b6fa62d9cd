// OpenAI's Node SDK against the gateway. The fake upstream's behaviour follows from the model's name.
import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI, { APIError, NotFoundError, RateLimitError } from "openai";

const baseURL = process.env.GATEWAY_URL;
const client = new OpenAI({ baseURL, apiKey: "sk-caller", maxRetries: 0 });
const messages = [{ role: "user", content: "Summarise the latest Qdrant release." }];

test("a chat with a rag model has annotations", async () => {
  const found = await client.chat.completions.create({ model: "rag/cited", messages });
  assert.equal(found.model, "rag/cited");
  assert.equal(found.choices[0].message.annotations[0].url_citation.url, "https://qdrant.tech/blog/qdrant-1-9/");
});

test("a stream carries the requested model and all texts", async () => {
  let text = "";
  for await (const chunk of await client.chat.completions.create({ model: "rag/phi3-en", messages, stream: true })) {
    assert.equal(chunk.model, "rag/phi3-en");
    text += chunk.choices[0]?.delta?.content ?? "";
  }
  assert.equal(text, "Tea is a drink [1].");
});

test("the stream helper accumulates a message", async () => {
  const stream = client.chat.completions.stream({ model: "rag/phi3-en", messages });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].message.content, "Tea is a drink [1].");
});

test("a response of a rag model has annotations", async () => {
  const found = await client.responses.create({ model: "rag/cited", input: messages[0].content });
  assert.equal(found.output_text, "Hybrid search [1].");
  assert.equal(found.output[0].content[0].annotations[0].url, "https://qdrant.tech/blog/qdrant-1-9/");
});

test("the helper of responses accumulates a stream", async () => {
  const stream = client.responses.stream({ model: "rag/phi3-en", input: messages[0].content });
  let deltas = "";
  stream.on("response.output_text.delta", (event) => (deltas += event.delta));
  const final = await stream.finalResponse();
  assert.equal(deltas, "Tea is a drink [1].");
  assert.equal(final.output_text, deltas);
  assert.equal(final.output[0].content[0].annotations.length, 1);
});

test("a response searches a vector store", async () => {
  const store = await client.vectorStores.create({ name: "node" });
  const file = await client.files.create({ file: new File(["The latest release is blue."], "release.txt"), purpose: "assistants" });
  await client.vectorStores.files.createAndPoll(store.id, { file_id: file.id });
  const tools = [{ type: "file_search", vector_store_ids: [store.id], ranking_options: { score_threshold: 0 } }];
  const found = await client.responses.create({ model: "cited", input: messages[0].content, tools });
  assert.equal(found.output[0].type, "file_search_call");
  assert.deepEqual(found.output[1].content[0].annotations[0], {
    type: "file_citation", file_id: file.id, filename: "release.txt", index: 14,
  });
});

test("models are listed, and one is found by a name with slashes", async () => {
  const names = [];
  for await (const model of await client.models.list()) names.push(model.id);
  assert.ok(names.includes("m") && names.includes("rag/deep/a/b"));
  assert.equal((await client.models.retrieve("rag/deep/a/b")).id, "rag/deep/a/b");
});

test("tools pass through", async () => {
  const tools = [{ type: "function", function: { name: "brew", parameters: { type: "object", properties: {} } } }];
  const found = await client.chat.completions.create({ model: "rag/tools", messages, tools });
  assert.equal(found.choices[0].message.tool_calls[0].function.name, "brew");
});

test("errors are the SDK's", async () => {
  await assert.rejects(client.chat.completions.create({ model: "rag/limited", messages }), RateLimitError);
  await assert.rejects(client.models.retrieve("rag/x/%2e%2e"), NotFoundError);
});

test("a broken stream is an error", async () => {
  const stream = await client.chat.completions.create({ model: "rag/broken", messages, stream: true });
  await assert.rejects(async () => {
    for await (const chunk of stream) assert.equal(chunk.choices[0].delta.content, "Tea");
  }, APIError);
});

test("retries follow the upstream's status", async () => {
  const patient = new OpenAI({ baseURL, apiKey: "x", maxRetries: 2 });
  const found = await patient.chat.completions.create({ model: "flaky", messages });
  assert.ok(found.choices.length);
});

test("a timeout of the caller ends the request", async () => {
  await assert.rejects(
    client.chat.completions.create({ model: "hanging", messages }, { timeout: 500 }),
    /timed out/i,
  );
});
