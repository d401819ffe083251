import { test } from "node:test";
import assert from "node:assert/strict";
import { argumentsOf, changed, fieldsOf } from "../assets/fields.js";

test("a call's arguments are changed field by field", () => {
  const args = { command: "ls\n-l", timeoutMs: 5, deep: { a: [1] }, none: null };
  const fields = fieldsOf(args);
  assert.deepEqual(fields.map((f) => [f.key, Boolean(f.json)]), [["command", false], ["timeoutMs", true], ["deep", true], ["none", true]]);
  assert.equal(changed(fields, args), false);
  fields[0] = { ...fields[0], text: "7" };
  fields[1] = { ...fields[1], text: "6" };
  assert.equal(changed(fields, args), true);
  assert.deepEqual(argumentsOf(fields), { args: { ...args, command: "7", timeoutMs: 6 } });
  fields[1] = { ...fields[1], text: "six" };
  assert.deepEqual(argumentsOf(fields), { wrong: "timeoutMs is no JSON" });
  for (const none of [null, undefined, "text", [1], {}]) assert.equal(fieldsOf(none), null);
});
