// What a view shows, of the logs of real turns: recorded from a server with the demo
// model, each as its stream of updates and as the view that the server gives afterwards.
import { test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fold, fromView } from "../assets/thread.js";
import { answers, itemsOf, nameOf, tasksOf } from "../assets/items.js";
import { outcome } from "../assets/format.js";

const logs = JSON.parse(readFileSync(new URL("logs/turns.json", import.meta.url)));
const calculate = 'script: call calculator {"expression":"6*7"} ;; call assign_task {"agent":"researcher","task":"script: say deep","description":"Go deeper"} ;; say 42';
const begin = (view) => fromView({ thread: { ...view.thread, openTurnId: "" }, messages: [], cursor: "0" });
const live = ({ updates, view }) => updates.reduce(fold, begin(view));
const tell = (i) => {
  switch (i.kind) {
    case "rollup":
      return `rollup: ${i.agents.map((a) => `${nameOf(a.task)} ${a.task.status}`).join(", ")}; ${i.tools} tools`;
    case "call":
      return `${i.call.toolName} ${outcome(i.call)}`;
    case "question":
      return `${i.ask.agent}: ${i.ask.text} ${i.ask.answer}`;
    case "assistant":
      return i.message.content ? `says ${String(i.message.content).replaceAll("\n", " ")}` : `thinks ${i.message.reasoning}`;
    default:
      return i.kind;
  }
};
const shown = (s) => s.turns.map((t) => itemsOf(t).map(tell));

test("every tool and agent stands behind the reply that made it, questions where they were asked", () => {
  assert.deepEqual(shown(live(logs.mixed)), [[
    "user", `rollup: Compare prices success, ${calculate} success; 2 tools`,
    "thinks first a look around", "ls success", "thinks hand it out", "assign_task success", "assign_task success", "shell success",
    "researcher: Which **vendor** first? acme", "says # Found  it **all**", "end",
  ]]);
});

test("an edited call is told as that, a denied one too", () => {
  assert.deepEqual(shown(live(logs.decisions)), [["user", "rollup: ; 3 tools", "shell edited", "file_write edited", "shell denied", "says I stopped here because you denied what I wanted to do. Tell me how to go on.", "end"]]);
  const [edited] = itemsOf(live(logs.decisions).turns[0]).filter((i) => i.kind === "call");
  assert.equal(edited.call.result, "use make clean");
});

test("a background agent stands under the message that began it, its report in the next turn", () => {
  const s = live(logs.background);
  assert.deepEqual(s.turns.map((t) => itemsOf(t).map((i) => i.kind)), [["user", "rollup", "call", "assistant", "end"], ["report", "assistant", "end"]]);
  const [roll] = itemsOf(s.turns[0]).filter((i) => i.kind === "rollup");
  assert.deepEqual(roll.agents.map((a) => a.task.status), ["success"]);
  // Until it has ended, it works.
  const at = logs.background.updates.findIndex((u) => u.event?.type === "sub_agent_completed");
  const before = logs.background.updates.slice(0, at).reduce(fold, begin(logs.background.view));
  assert.equal(itemsOf(before.turns[0]).find((i) => i.kind === "rollup").agents[0].task.status, "running");
});

test("a failed agent has its reason, and its last action is known while it works", () => {
  const s = live(logs.failed);
  const [{ task }] = itemsOf(s.turns[0]).find((i) => i.kind === "rollup").agents;
  assert.equal(task.status, "failed");
  assert.match(task.error, /^the model made the same call/);
  const at = logs.failed.updates.findLastIndex((u) => u.event?.type === "sub_agent_tool_call");
  const before = logs.failed.updates.slice(0, at + 1).reduce(fold, begin(logs.failed.view));
  const [now] = itemsOf(before.turns[0]).find((i) => i.kind === "rollup").agents;
  assert.deepEqual([now.action.toolName, now.action.status, now.task.status], ["ls", "running", "running"]);
});

test("a retry has the answers that its own replaces", () => {
  const s = live(logs.retried);
  assert.deepEqual(s.turns.map((_, i) => answers(s.turns, i).map((m) => m.content)), [[], ["one and the same"]]);
  assert.deepEqual(shown(live(logs.retried)), [["user", "says one and the same", "end"], ["says one and the same", "end"]]);
});

test("a stopped turn says so, and so does its agent", () => {
  const s = live(logs.stopped);
  assert.deepEqual(itemsOf(s.turns[0]).map((i) => i.kind), ["user", "rollup", "call", "end"]);
  assert.equal(itemsOf(s.turns[0])[1].agents[0].task.status, "cancelled");
  assert.equal(s.turns[0].end.data.code, "cancelled");
});

for (const [name, log] of Object.entries(logs)) {
  test(`the stream and the view of the server show the same: ${name}`, () => {
    const viewed = fromView(log.view);
    assert.deepEqual(shown(live(log)), shown(viewed));
    assert.deepEqual(tasksOf(live(log)).map((t) => [t.id, t.status]), tasksOf(viewed).map((t) => [t.id, t.status]));
    for (const s of [live(log), viewed]) {
      const seqs = s.turns.flatMap((t) => t.messages.map((m) => m.seq));
      assert.deepEqual(seqs, seqs.toSorted((a, b) => a - b));
      const keys = s.turns.flatMap((t) => itemsOf(t).map((i) => i.key));
      assert.equal(new Set(keys).size, keys.length, "each once");
    }
  });

  test(`updates that come twice change nothing: ${name}`, () => {
    const twice = log.updates.reduce((s, u) => fold(fold(s, u), u), begin(log.view));
    assert.deepEqual(shown(twice), shown(live(log)));
    assert.deepEqual(shown(log.updates.reduce(fold, fromView(log.view))), shown(fromView(log.view)), "the view has them already");
  });
}
