import { test } from "node:test";
import assert from "node:assert/strict";
import { summary, ticks, waits, waterfall } from "../assets/spans.js";

const time = (s) => new Date(Date.UTC(2026, 0, 1, 0, 0, s)).toISOString();
const span = (kind, id, from, to, more) => ({ kind, id, startAt: time(from), ...(to !== undefined && { endAt: time(to) }), ...more });
const answer = {
  turn: { openedAt: time(0) },
  spans: [
    span("model", "m1", 0, 1, { usage: { totalTokens: 10, price: 0.5 }, attempt: 1 }),
    span("agent", "a", 1, undefined, {}),
    span("model", "m2", 1, 2, { parent: "a", attempt: 1 }),
    span("lost", "l", 4, 4, { parent: "a" }),
    span("model", "m3", 4, 6, { parent: "a", attempt: 2, usage: { totalTokens: 5 } }),
    span("tool", "t", 1, 9, { parent: "somewhere else" }),
  ],
};

test("spans stand below those that they are part of, on one axis", () => {
  const w = waterfall(answer, Date.parse(time(10)));
  assert.deepEqual(w.rows.map((r) => [r.span.id, r.depth, Math.round(r.left), Math.round(r.width), r.open]), [
    ["m1", 0, 0, 10, false], ["a", 0, 10, 90, true], ["m2", 1, 10, 10, false], ["l", 1, 40, 0, false], ["m3", 1, 40, 20, false], ["t", 0, 10, 80, false],
  ]);
  assert.deepEqual(w.rows.map((r) => r.inside), [false, true, false, false, false, false]);
  assert.equal(w.total, 10_000);
  const shut = waterfall(answer, Date.parse(time(20)), new Set(["a"]));
  assert.deepEqual(shut.rows.map((r) => r.span.id), ["m1", "a", "t"]);
  assert.equal(Math.round(shut.rows[1].width), 95, "what lasts grows with the time");
});

test("a turn of which nothing is known yet", () => {
  assert.deepEqual(waterfall({ turn: { openedAt: time(0), closedAt: time(1) }, spans: [] }, Date.parse(time(9))).total, 1000);
  assert.deepEqual(waterfall({ spans: [] }, 0).rows, []);
});

test("an axis has few marks, at round times", () => {
  assert.deepEqual(ticks(10_000).map((t) => t.text), ["0", "2 s", "4 s", "6 s", "8 s", "10 s"]);
  assert.deepEqual(ticks(450).map((t) => t.text), ["0", "100 ms", "200 ms", "300 ms", "400 ms"]);
  for (const total of [1, 7, 61, 999, 1001, 59_000, 61_000, 3.5e6, 8e7, 9e8, 3e9]) {
    const list = ticks(total);
    assert.ok(list.length >= 2 && list.length <= 7, `${total}: ${list.length}`);
    assert.ok(list.every((t) => t.at <= 100 && !/undefined|NaN/.test(t.text)));
  }
});

test("what a trace has in it", () => {
  assert.deepEqual(summary(answer.spans), { model: 3, tool: 1, agent: 1, lost: 1, again: 1, tokens: 15, price: 0.5 });
  assert.deepEqual(["wait", "approval", "question", "tool"].map((kind) => waits({ kind })), [true, true, true, false]);
});
