// What an application does with LangChain's OpenAI model, against the server in
// BASE_URL. Prints what it saw as one JSON document.
import { AIMessage, HumanMessage, SystemMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";

const options = { model: "orchestrator", apiKey: process.env.TOKEN, configuration: { baseURL: process.env.BASE_URL }, temperature: 0, maxTokens: 100, maxRetries: 0 };
const model = new ChatOpenAI(options);
const named = new ChatOpenAI({ ...options, configuration: { ...options.configuration, defaultHeaders: { "X-Spool-Thread": process.env.SESSION } } });
const seen = {};

// Two turns of a named conversation, the second streamed.
const history = [new SystemMessage("Be brief."), new HumanMessage('hello')];
const first = await named.invoke(history);
seen.first = first.content;
seen.usage = first.usage_metadata.total_tokens > 0;
seen.second = "";
for await (const piece of await named.stream([...history, new AIMessage(first.content), new HumanMessage("script: slow 10ms say one two three")])) seen.second += piece.content;

// An image in a data: URL.
const url = "data:image/png;base64," + process.env.IMAGE;
seen.look = (await model.invoke([new HumanMessage({ content: [{ type: "text", text: "script: say seen" }, { type: "image_url", image_url: { url } }] })])).content;

// Answers in JSON.
const schema = { title: "n", type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false };
seen.object = await model.withStructuredOutput(schema, { method: "jsonSchema", name: "n" }).invoke('script: say {"n":42}');
seen.free = await model.withStructuredOutput(schema, { method: "jsonMode" }).invoke('script: say {"n":1}');

const failing = async (f) => {
  try { await f(); return "no error"; } catch (e) { return [e.status, e.param ?? null, e.code]; }
};
seen.errors = {
  tools: await failing(() => model.bindTools([{ type: "function", function: { name: "f", parameters: schema } }]).invoke("x")),
  failed: await failing(() => model.invoke("script: fail 400 say never")),
};
console.log(JSON.stringify(seen));
