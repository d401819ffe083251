import { test } from "node:test";
import assert from "node:assert/strict";
import { fold, fromView, prepend, waiting } from "../assets/thread.js";
import { answers, itemsOf } from "../assets/items.js";

const at = (ms) => new Date(1_700_000_000_000 + ms).toISOString();
const main = { id: "s/default", kind: "main", rootThreadId: "s/default", status: "running" };
const empty = () => fromView({ thread: main, messages: [], inbox: [], tasks: [], toolCalls: [], cursor: "0" });
let seq = 0;
const event = (type, data, turnId = "t1", messages) => ({ threadId: main.id, cursor: String(++seq), event: { threadId: main.id, seq, type, turnId, data, at: at(seq * 10) }, ...(messages && { messages }) });
const text = (messageId, attempt, offset, t) => ({ threadId: main.id, cursor: `${seq}:${attempt}:${offset + t.length}`, text: { messageId, turnId: "t1", attempt, offset, text: t } });
const user = (id, s, content, turnId = "t1") => ({ id, role: "user", content, turnId, seq: s, timestamp: at(s) });
const says = (id, s, content, turnId = "t1") => ({ id, role: "assistant", content, turnId, seq: s, timestamp: at(s) });

// A turn with a tool and a sub-agent, as the log tells it.
function turn() {
  seq = 0;
  const calls = [{ id: "call_1", function: { name: "ls", arguments: "{}" } }, { id: "call_2", function: { name: "assign_task", arguments: '{"agent":"researcher","task":"look"}' } }];
  return [
    event("message_started", { content: "hi" }),
    event("memory_appended", { fromSeq: 1, toSeq: 1 }, "t1", [user("t1.0", 1, "hi")]),
    event("tool_calls", { toolCalls: calls }),
    event("tool_call", { intent: "ls", arguments: {}, toolCallId: "call_1" }),
    event("tool_call", { intent: "assign_task", arguments: { agent: "researcher", task: "look" }, toolCallId: "call_2", sub_agent_thread_id: "agent:researcher:x" }),
    event("tool_response", { toolCallId: "call_1", name: "ls", status: "success", result: "a.txt", durationMs: 3 }),
    event("sub_agent_completed", { parentToolCallId: "call_2", status: "completed", durationMs: 40 }),
    event("tool_response", { toolCallId: "call_2", name: "assign_task", status: "success", result: "found" }),
    event("memory_appended", {}, "t1", [{ ...says("t1.1", 2, null), tool_calls: calls }, { id: "r1", role: "tool", tool_call_id: "call_1", content: "a.txt", turnId: "t1", seq: 3 }, { id: "r2", role: "tool", tool_call_id: "call_2", content: "found", turnId: "t1", seq: 4 }]),
    text("t1.2", 1, 0, "the "), text("t1.2", 1, 4, "end"),
    event("assistant_message", { messageId: "t1.2", content: "the end" }),
    event("memory_appended", {}, "t1", [says("t1.2", 5, "the end")]),
    event("done", { responseTimeMs: 120, usage: { totalTokens: 9 } }),
  ];
}

const items = (s) => s.turns.flatMap(itemsOf);
const told = (i) => (i.kind === "call" ? `${i.call.toolName} ${i.call.status}` : i.kind === "rollup" ? `rollup(${i.agents.map((a) => `${a.task.name} ${a.task.status}`)})` : i.kind);
const shape = (s) => items(s).map(told);
const messages = (s) => s.turns.flatMap((t) => t.messages);

test("a turn as it happens", () => {
  const seen = [];
  let s = empty();
  for (const u of turn()) seen.push(shape((s = fold(s, u))).join());
  assert.deepEqual([...new Set(seen)], [
    "", "user", "user,ls pending,assign_task pending", "user,rollup(),ls running,assign_task pending", "user,rollup(agent:researcher running),ls running,assign_task running", "user,rollup(agent:researcher running),ls success,assign_task running",
    "user,rollup(agent:researcher success),ls success,assign_task running", "user,rollup(agent:researcher success),ls success,assign_task success", "user,rollup(agent:researcher success),ls success,assign_task success,stream",
    "user,rollup(agent:researcher success),ls success,assign_task success,assistant", "user,rollup(agent:researcher success),ls success,assign_task success,assistant,end",
  ]);
});

test("an answer that is cut says so where its turn ends", () => {
  let s = empty();
  const all = turn();
  for (const u of [...all.slice(0, -1), event("warning", { code: "answer_cut", message: "the answer is cut" }), all.at(-1)]) s = fold(s, u);
  assert.equal(items(s).at(-1).cut, "the answer is cut");
  for (const code of ["message_shortened", "window_too_small", "context_truncated", "tool_call_as_text"]) s = fold(s, event("warning", { code, message: code }));
  assert.equal(items(s).at(-1).cut, "the answer is cut; message_shortened; window_too_small; context_truncated; tool_call_as_text");
  let whole = empty();
  for (const u of turn()) whole = fold(whole, u);
  assert.equal(items(whole).at(-1).cut, "");
});

test("an update that comes twice, or that the view has already, changes nothing", () => {
  let once = empty();
  for (const u of turn()) once = fold(once, u);
  let twice = empty();
  for (const u of turn()) twice = fold(fold(twice, u), u);
  assert.deepEqual(shape(twice), shape(once));
  let again = once;
  for (const u of turn()) again = fold(again, u);
  assert.deepEqual(shape(again), shape(once));
  assert.deepEqual(items(again).map((i) => i.key), items(once).map((i) => i.key));
  assert.equal(again.turns[0].streams.size, 0);
});

test("the view of any moment and what follows give the same as all updates", () => {
  const all = turn();
  let whole = empty();
  for (const u of all) whole = fold(whole, u);
  for (let cut = 0; cut < all.length; cut++) {
    let before = empty();
    for (const u of all.slice(0, cut)) before = fold(before, u);
    let s = fromView({ thread: main, messages: messages(before), inbox: [], tasks: before.turns.flatMap((t) => [...t.tasks.values()]), toolCalls: before.turns.flatMap((t) => [...t.calls.values()]), ...(before.turns[0]?.reply && { pending: before.turns[0].reply }), events: all.slice(0, cut).flatMap((u) => u.event ?? []), cursor: before.cursor });
    for (const u of all.slice(cut)) s = fold(s, u);
    assert.deepEqual(shape(s), shape(whole), `cut at ${cut}`);
  }
});

test("a new attempt replaces what an earlier one streamed", () => {
  let s = empty();
  s = fold(s, event("memory_appended", {}, "t1", [user("t1.0", 1, "hi")]));
  const stream = () => s.turns[0].streams.get("t1.1")?.text;
  s = fold(s, text("t1.1", 1, 0, "half a "));
  s = fold(s, text("t1.1", 2, 0, "whole ü"));
  assert.equal(stream(), "whole ü");
  s = fold(s, text("t1.1", 1, 7, "thought"));
  assert.equal(stream(), "whole ü", "late text of the old attempt");
  s = fold(s, text("t1.1", 2, 8, " answer")); // ü has two bytes
  assert.equal(stream(), "whole ü answer");
  s = fold(s, event("memory_appended", {}, "t1", [says("t1.1", 2, "whole ü answer")]));
  assert.equal(stream(), undefined);
  s = fold(s, text("t1.1", 2, 8, " answer"));
  assert.equal(stream(), undefined, "the saved message replaces it for good");
});

test("a background start leaves its task running until its agent ends", () => {
  seq = 0;
  let s = empty();
  s = fold(s, event("memory_appended", {}, "t1", [user("t1.0", 1, "hi")]));
  s = fold(s, event("tool_call", { intent: "assign_task", arguments: { agent: "a", task: "x", background: true }, toolCallId: "call_9", sub_agent_thread_id: "agent:a:1" }));
  s = fold(s, event("tool_response", { toolCallId: "call_9", name: "assign_task", status: "success", result: "started" }));
  assert.deepEqual(shape(s), ["user", "rollup(agent:a running)"]);
  s = fold(s, event("sub_agent_completed", { parentToolCallId: "call_9", status: "failed" }, "t2"));
  assert.deepEqual(shape(s), ["user", "rollup(agent:a failed)"]);
});

test("what does not change stays the same object", () => {
  let s = empty();
  for (const u of turn()) s = fold(s, u);
  const first = s.turns[0];
  s = fold(s, event("memory_appended", {}, "t2", [user("t2.0", 6, "more", "t2")]));
  s = fold(s, { threadId: main.id, cursor: "99:1:2", text: { messageId: "t2.1", turnId: "t2", attempt: 1, offset: 0, text: "so" } });
  assert.equal(s.turns[0], first);
  assert.equal(itemsOf(s.turns[0]), itemsOf(first));
  assert.deepEqual(s.turns.map((t) => t.id), ["t1", "t2"]);
});

test("the text of a reply with calls is shown once, before its calls, and its thoughts stay", () => {
  seq = 0;
  let s = fold(empty(), event("memory_appended", {}, "t1", [user("t1.0", 1, "hi")]));
  s = fold(s, { threadId: main.id, cursor: "1:1:9", text: { messageId: "t1.1", turnId: "t1", attempt: 1, offset: 0, text: "I look at", reasoningOffset: 0, reasoning: "hm" } });
  const calls = [{ id: "call_1", function: { name: "ls", arguments: "{}" } }];
  s = fold(s, event("tool_calls", { toolCalls: calls }));
  s = fold(s, event("tool_call", { intent: "ls", arguments: {}, toolCallId: "call_1" }));
  assert.deepEqual(shape(s), ["user", "rollup()", "assistant", "ls running"]);
  assert.deepEqual([items(s)[2].message.content, items(s)[2].message.reasoning], ["I look at", "hm"]);
  s = fold(s, event("memory_appended", {}, "t1", [{ ...says("t1.1", 2, "I look at"), reasoning: "hm", tool_calls: calls }]));
  assert.deepEqual(shape(s), ["user", "rollup()", "assistant", "ls running"]);
  const silent = fold(s, event("memory_appended", {}, "t1", [{ ...says("t1.1", 2, null), reasoning: "hm", tool_calls: calls }]));
  assert.deepEqual(shape(silent), ["user", "rollup()", "assistant", "ls running"], "thoughts without text stay, too");
});

test("a long result is never blank", () => {
  let s = empty();
  for (const u of turn().slice(0, 5)) s = fold(s, u);
  s = fold(s, event("tool_response", { toolCallId: "call_1", name: "ls", status: "success", resultRef: "r1", preview: "the beginn", size: 4000 }));
  const ls = () => items(s).find((i) => i.call?.toolName === "ls").call;
  assert.deepEqual([ls().result, ls().whole], ["the beginn", false]);
  s = fold(s, event("memory_appended", {}, "t1", [{ ...says("t1.1", 2, null), tool_calls: [{ id: "call_1", function: { name: "ls", arguments: "{}" } }] }, { id: "r1", role: "tool", tool_call_id: "call_1", content: "the beginning and the end", turnId: "t1", seq: 3 }]));
  assert.equal(ls().result, "the beginning and the end");
});

test("earlier pages and waiting messages", () => {
  let s = fromView({ thread: main, messages: [user("t2.0", 3, "b", "t2"), says("t2.1", 4, "B", "t2")], inbox: [{ id: "m3", kind: "message", state: "waiting", turnId: "t3", content: "c" }], cursor: "9" });
  s = prepend(s, { messages: [user("t1.0", 1, "a"), says("t1.1", 2, "A")] });
  assert.deepEqual(messages(s).map((m) => m.seq), [1, 2, 3, 4]);
  assert.equal(s.inbox.length, 1);
  s = fold(s, event("memory_appended", {}, "t3", [user("t3.0", 5, "c", "t3")]));
  assert.equal(s.inbox.length, 0);
});

test("a model call that waits is told until it goes on, also those of sub-agents", () => {
  seq = 0;
  const wait = (threadId, attempt) => event("warning", { code: "model_wait", message: "waits", wait: { threadId, agent: "a", attempt, until: at(5000), code: "overloaded" } });
  const ids = (s, now) => waiting(s, 1_700_000_000_000 + now).map((w) => w.threadId).join();
  let s = fold(fold(empty(), wait(main.id, 2)), wait("agent:a:x", 3));
  assert.equal(ids(s, 0), "s/default,agent:a:x");
  assert.equal(ids(s, 5000), "", "its time has come");
  assert.equal(ids(fold(s, text("t1.1", 2, 0, "so")), 0), "agent:a:x", "it goes on");
  s = fold(s, event("sub_agent_completed", { sub_agent_thread_id: "agent:a:x", status: "failed" }));
  assert.equal(ids(s, 0), "s/default");
  assert.equal(ids(fold(s, event("error", { code: "cancelled" })), 0), "");
  const view = { thread: main, messages: [], inbox: [], tasks: [], toolCalls: [], events: [wait(main.id, 2).event], waits: [{ threadId: "agent:a:y", until: at(9000) }] };
  assert.equal(ids(fromView(view), 0), "agent:a:y", "the view's rows count");
});

test("a call that a person approved with other arguments shows these", () => {
  seq = 0;
  const calls = [{ id: "call_1", function: { name: "shell", arguments: '{"command":"rm a"}' } }];
  const told = [
    event("tool_calls", { toolCalls: calls }),
    event("tool_call", { intent: "shell", arguments: { command: "rm a" }, toolCallId: "call_1", gate: "ask" }),
    event("sub_agent_tool_call", { toolCallId: "call_2", toolName: "shell", arguments: { command: "rm b" }, parentToolCallId: "call_1" }),
    event("tool_approval_required", { approvalId: "a", toolCalls: [{ id: "call_1" }] }),
    event("tool_approval_response", { approvalId: "a", decision: "approve", approvedCalls: ["call_1"], arguments: { call_1: { command: "ls" } } }),
    event("tool_approval_response", { approvalId: "b", decision: "approve", approvedCalls: ["call_2"], arguments: { call_2: { command: "ls b" } } }),
  ];
  const [t] = told.reduce(fold, empty()).turns;
  assert.deepEqual([t.calls.get("call_1").args, t.calls.get("call_1").gate, t.tasks.get("task_1").instruction], [{ command: "ls" }, "edited", '{"command":"ls"}']);
  assert.deepEqual(t.actions.get("task_1").args, { command: "ls b" });
});
