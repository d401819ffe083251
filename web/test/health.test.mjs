import { test } from "node:test";
import assert from "node:assert/strict";
import { healthLines } from "../assets/healthlines.js";

const at = (s) => new Date(Date.UTC(2026, 0, 1, 12, 0, s)).toISOString();
const now = Date.parse(at(0));
const wait = (root, until, more) => ({ kind: "wait", wait: { threadId: root, rootThreadId: root, agent: "general", attempt: 2, until: at(until), code: "rate_limited", asked: true, ...more } });

test("a line for each part that is away, with how long it is", () => {
  const health = [{ kind: "worker", text: "No worker runs.", since: at(-130) }, { kind: "temporal", text: "Temporal is away.", since: at(-5) }, { kind: "demo", text: "The demo model answers." }];
  assert.deepEqual(healthLines(health, now).map((l) => l.text), ["No worker runs. (for 2 min)", "Temporal is away."]);
  const [again] = healthLines([{ ...health[0], since: at(-1) }], now);
  assert.notEqual(again.key, healthLines(health, now)[0].key, "what happens anew is told anew");
  assert.deepEqual(healthLines([], now), []);
});

test("one line with a countdown for all calls that wait for their provider", () => {
  const health = [wait("a/default", 12), wait("a/default", 13), wait("b/default", 60), wait("c/default", -1)];
  const [line, ...rest] = healthLines(health, now, new Map([["a/default", "Vendors"]]));
  assert.equal(rest.length, 0);
  assert.match(line.text, /^Vendors: waiting for the provider until .* \(rate limited\), attempt 2, in 12 s; 1 more conversation waits, too$/);
  assert.deepEqual(healthLines(health, now + 120_000), [], "it is over");
});
