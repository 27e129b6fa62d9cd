// The texts that the Vercel AI SDK shows for a plain and for a streamed reply of the gateway, as JSON.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const provider = createOpenAICompatible({ name: "ragstore", baseURL: process.env.GATEWAY_URL, apiKey: "x" });
const prompt = process.env.QUESTION;

const { text: plain } = await generateText({ model: provider.chatModel("rag/m"), prompt, maxRetries: 0 });
let streamed = "";
for await (const part of streamText({ model: provider.chatModel("rag/m"), prompt, maxRetries: 0 }).textStream) {
  streamed += part;
}
console.log(JSON.stringify({ plain, streamed }));
