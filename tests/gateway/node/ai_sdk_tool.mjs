// A model that calls the search tool of the client, with the Vercel AI SDK: the tool and its result as the model gets them, as JSON.
import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV3 } from "ai/test";

const dist = new URL("../../../clients/node/dist/esm/", import.meta.url);
const { createSearchTool } = await import(new URL("ai.js", dist));
const { GatewayClient } = await import(new URL("gateway/index.js", dist));

const client = new GatewayClient(process.env.GATEWAY_URL);
const base = await client.bases.create({ name: `ai-sdk-${Date.now()}`, description: "The house", minScore: 0 });
await client.ingestText(base, "lift.txt", "The lift is tested every year.", { metadata: { url: "https://example.com/lift" } });

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const call = (input) => ({
  content: [{ type: "tool-call", toolCallId: "1", toolName: "search", input: JSON.stringify(input) }],
  finishReason: { unified: "tool-calls", raw: "tool_calls" },
  usage,
  warnings: [],
});
const reply = { content: [{ type: "text", text: "Every year." }], finishReason: { unified: "stop", raw: "stop" }, usage, warnings: [] };

async function asked(input) {
  const model = new MockLanguageModelV3({ doGenerate: [call(input), reply] });
  const tools = { search: createSearchTool(client, base, { maxResults: 1 }) };
  await generateText({ model, prompt: "How often is the lift tested?", tools, stopWhen: stepCountIs(2), maxRetries: 0 });
  const [{ tools: offered }, { prompt }] = model.doGenerateCalls;
  return { offered, result: prompt.at(-1).content[0].output };
}

const { offered, result } = await asked({ query: "test of the lift" });
const wrong = await asked({ query: " " });
await client.bases.delete(base, { permanent: true });
console.log(JSON.stringify({ offered, result, wrong: wrong.result.type }));
