// The texts and sources that the Vercel AI SDK gets by its default, the Responses API, with and without a search, as JSON.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

const openai = createOpenAI({ baseURL: process.env.GATEWAY_URL, apiKey: "x" });
const prompt = process.env.QUESTION;

const { text: plain, sources } = await generateText({ model: openai("rag/m"), prompt, maxRetries: 0 });
let streamed = "";
for await (const part of streamText({ model: openai("rag/m"), prompt, maxRetries: 0 }).textStream) streamed += part;
const tools = { file_search: openai.tools.fileSearch({ vectorStoreIds: [process.env.STORE] }) };
const searched = await generateText({ model: openai("m"), prompt, tools, maxRetries: 0 });
console.log(
  JSON.stringify({
    plain,
    urls: sources.map((source) => source.url),
    streamed,
    searched: searched.text,
    files: searched.sources.map((source) => source.filename),
  }),
);
