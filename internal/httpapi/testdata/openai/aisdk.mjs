// What an application does with the AI SDK and its OpenAI provider, against the server
// in BASE_URL. Prints what it saw as one JSON document.
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, jsonSchema, streamText, tool } from "ai";

const model = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.TOKEN }).chat("orchestrator");
const seen = {};
const thread = (r) => r.response.headers["x-spool-thread"];
const user = (content) => ({ role: "user", content });

// Two turns, by the history alone; the second is streamed.
const system = "Be brief.";
const first = await generateText({ model, system, prompt: 'hello', temperature: 0.5, maxOutputTokens: 100, seed: 1 });
seen.first = first.text;
const messages = [user('hello'), ...first.response.messages, user("script: slow 10ms say one two three")];
const second = streamText({ model, system, messages });
seen.second = "";
for await (const piece of second.textStream) seen.second += piece;
seen.same = thread(first) === (await second.response).headers["x-spool-thread"];
seen.thread = thread(first);
seen.usage = (await second.usage).totalTokens > 0;

// An image, as bytes.
const image = Buffer.from(process.env.IMAGE, "base64");
const look = await generateText({ model, messages: [user([{ type: "text", text: "script: say seen" }, { type: "image", image, mediaType: "image/png" }])] });
seen.look = [look.text, thread(look)];

// Answers in JSON.
const schema = jsonSchema({ type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false });
seen.object = (await generateObject({ model, schema, prompt: 'script: say {"n":42}' })).object;
seen.free = (await generateObject({ model, output: "no-schema", prompt: 'script: say {"any":1}' })).object;

const failing = async (f) => {
  try { await f(); return "no error"; } catch (e) { const d = e.data?.error ?? {}; return [e.statusCode, d.param ?? null, d.code]; }
};
seen.errors = {
  tools: await failing(() => generateText({ model, prompt: "x", tools: { f: tool({ inputSchema: schema }) } })),
  failed: await failing(() => generateText({ model, prompt: "script: fail 400 say never", maxRetries: 0 })),
};
console.log(JSON.stringify(seen));
