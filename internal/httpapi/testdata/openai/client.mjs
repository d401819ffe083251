// What an application does with OpenAI's own client, against the server in BASE_URL.
// Prints what it saw as one JSON document.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.TOKEN });
const user = (content) => [{ role: "user", content }];
const seen = {};

const models = [];
for await (const m of await client.models.list()) models.push(m.id);
seen.models = models;
seen.model = (await client.models.retrieve("general")).id;

// A conversation by header: the second request brings the history along, as chat
// clients do; the thread has it once.
const named = { headers: { "X-Spool-Thread": process.env.SESSION } };
const first = await client.chat.completions.create({ model: "orchestrator", messages: user('script: call calculator {"expression":"6*7"} ;; echo it is') }, named);
seen.first = first.choices[0].message.content;
seen.finish = first.choices[0].finish_reason;
seen.usage = first.usage.total_tokens > 0;
const history = [...user("earlier"), { role: "assistant", content: seen.first }];
const second = await client.chat.completions.create({ model: "orchestrator", messages: [...history, ...user("script: say second")] }, named);
seen.second = second.choices[0].message.content;

// The same by metadata, streamed.
let text = "", chunks = 0, usage = null, finish = null;
const stream = await client.chat.completions.create({
  model: "orchestrator", stream: true, stream_options: { include_usage: true }, metadata: { conversation: process.env.SESSION },
  messages: user('script: slow 20ms say one two three four five six seven eight nine ten'),
});
for await (const c of stream) {
  if (c.usage) usage = c.usage.total_tokens > 0;
  const choice = c.choices[0];
  if (choice?.delta?.content) { text += choice.delta.content; chunks++; }
  if (choice?.finish_reason) finish = choice.finish_reason;
}
seen.streamed = { text, many: chunks > 2, usage, finish };

// A stream whose provider asks for a pause: what says so is no chunk.
let late = "";
for await (const c of await client.chat.completions.create({ model: "orchestrator", stream: true, messages: user("script: fail 429 x1 after 2500ms say at last") })) late += c.choices[0]?.delta?.content ?? "";
seen.late = late;

// A request that is repeated with its key gets the answer of the first, streamed or not.
const once = { idempotencyKey: "k1", headers: { "Idempotency-Key": "key-" + process.env.SESSION } };
const a = await client.chat.completions.create({ model: "orchestrator", messages: user("script: say once") }, once).withResponse();
const b = await client.chat.completions.create({ model: "orchestrator", messages: user("script: say once") }, once).withResponse();
const thread = (r) => r.response.headers.get("x-spool-thread");
seen.once = [a.data.choices[0].message.content, b.data.choices[0].message.content, thread(a) === thread(b), a.data.id === b.data.id];
let again = "";
for await (const c of await client.chat.completions.create({ model: "orchestrator", stream: true, messages: user("script: say once") }, once)) again += c.choices[0]?.delta?.content ?? "";
seen.again = again;

// Without a conversation the request's own history counts.
const whole = await client.chat.completions.create({ model: "orchestrator", messages: [{ role: "system", content: "Be brief." }, ...history, ...user("And now?")] }).withResponse();
seen.wholeThread = thread(whole);

// An answer that fits a schema.
const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false };
const fitting = await client.chat.completions.create({
  model: "orchestrator", messages: user('script: say {"n":42}'), response_format: { type: "json_schema", json_schema: { name: "n", schema } },
});
seen.fitting = JSON.parse(fitting.choices[0].message.content);

// A question is an answer, and the next message answers it.
const talk = { headers: { "X-Spool-Thread": process.env.SESSION + "/questions" } };
const asked = await client.chat.completions.create({ model: "orchestrator", messages: user('script: call ask_user {"question":"Which one?"} ;; echo you said') }, talk);
seen.question = asked.choices[0].message.content;
seen.answered = (await client.chat.completions.create({ model: "orchestrator", messages: user("the blue one") }, talk)).choices[0].message.content;

// Errors are those of the client library, with their codes, and are not repeated.
const failing = async (f) => {
  try { await f(); return "no error"; } catch (e) { return [e.constructor.name, e.status, e.code]; }
};
seen.errors = {
  model: await failing(() => client.chat.completions.create({ model: "nobody", messages: user("hi") })),
  tools: await failing(() => client.chat.completions.create({ model: "orchestrator", messages: user("hi"), tools: [{ type: "function", function: { name: "f" } }] })),
  token: await failing(() => new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "wrong" }).models.list()),
  approval: await failing(() => client.chat.completions.create({ model: "orchestrator", messages: user('script: call shell {"command":"echo x >> gated"}') }, { headers: { "X-Spool-Thread": process.env.SESSION + "/gated" } })),
  streamed: await failing(async () => {
    const s = await client.chat.completions.create({ model: "orchestrator", stream: true, messages: user('script: call shell {"command":"echo x >> gated"}') });
    for await (const _ of s);
  }),
};

console.log(JSON.stringify(seen));
