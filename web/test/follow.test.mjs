import { test } from "node:test";
import assert from "node:assert/strict";
import { events } from "../assets/follow.js";

test("the events of an answer", () => {
  const text = 'retry: 500\n\nid: 3,4\nevent: update\ndata: {"a":"b: c"}\n\n: alive\n\nevent: end\ndata: {}\n\n';
  assert.deepEqual(events(text), [["update", { a: "b: c" }], ["end", {}]]);
  assert.deepEqual(events(""), []);
});
