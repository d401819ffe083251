import { test } from "node:test";
import assert from "node:assert/strict";
import { lines, changes } from "../assets/diff.js";
import { ago, brief, contentImages, contentText, count, cut, duration, figures, imageAddress, localTimes, outcome, pretty, price, state, title, unfinished, waitText } from "../assets/format.js";
import { read, sessions, way, write } from "../assets/route.js";

test("figures", () => {
  assert.deepEqual([0, 999, 1500, 59_400, 61_000, 7_260_000, 200_000_000].map(duration), ["0 ms", "999 ms", "1.5 s", "59 s", "1 min 1 s", "2 h 1 min", "2 d 7 h"]);
  assert.equal(duration(undefined), "");
  assert.deepEqual([9999, 12_345, 123_456, 2_000_000].map(count), ["9999", "12.3 k", "123 k", "2.0 M"]);
  assert.deepEqual([0, 0.0012, 1.5].map(price), ["", "$0.0012", "$1.50"]);
  assert.equal(figures("a", "", "b"), "a · b");
  assert.equal(ago("2026-01-01T00:00:00Z", Date.parse("2026-01-01T00:05:00Z")), "5 min ago");
});

test("texts", () => {
  assert.equal(brief('{"a":"x y","b":[1]}'), "a=x y, b=[1]");
  assert.equal(brief("not json"), "not json");
  assert.equal(brief(null), "");
  assert.equal(cut("😀😀😀😀", 3), "😀😀…");
  assert.equal(pretty('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(pretty("[x"), "[x");
  assert.equal(title("research-lead"), "Research lead");
  assert.equal(contentText([{ type: "text", text: "a" }, { type: "image_url", image_url: { url: "u" } }]), "a");
  assert.deepEqual(contentImages([{ type: "image_url", image_url: { url: "u" } }]), ["u"]);
});

test("what a model call waits for", () => {
  const now = Date.parse("2026-05-01T12:03:00Z");
  const time = (at) => new Date(at).toLocaleTimeString();
  const w = { attempt: 3, code: "rate_limited", reason: "slow down", until: "2026-05-01T12:03:20Z", asked: true };
  assert.equal(waitText(w, now), `waiting for the provider until ${time(w.until)} (rate limited: “slow down”), attempt 3`);
  assert.equal(waitText({ ...w, held: true, status: 429 }, now), `held back until ${time(w.until)}: the provider asked everyone to wait (429: “slow down”)`);
  assert.equal(waitText({ ...w, held: true, reason: "" }, now), `held back until ${time(w.until)}: the provider asked everyone to wait`);
  const end = "2026-05-01T12:03:50Z";
  assert.equal(waitText({ ...w, asked: false, code: "unreachable", reason: "", givesUpAt: end }, now), `the model did not answer (no connection), trying again at ${time(w.until)} (attempt 3; gives up at ${time(end)})`);
  assert.equal(waitText({ ...w, asked: false, code: "unreachable", reason: "", givesUpAt: end, fallback: "m2@two" }, now), `the model did not answer (no connection), trying again at ${time(w.until)} (attempt 3; goes on with m2@two at ${time(end)})`);
  assert.equal(localTimes("until 2026-01-02T03:04:05Z: no", now), `until ${new Date("2026-01-02T03:04:05Z").toLocaleString()}: no`);
  assert.equal(localTimes(undefined), undefined);
});

test("images come from here", () => {
  const name = "a".repeat(64) + ".png";
  assert.equal(imageAddress(`image:${name}`), `/api/v1/images/${name}`);
  for (const url of ["https://a.test/x.png", "image:../x.png", "file:a.png", "javascript:x", "data:image/svg+xml;base64,AA", "data:text/html,x"]) assert.equal(imageAddress(url), "", url);
});

test("every status has words", () => {
  for (const s of ["pending", "running", "waiting_for_user", "waiting_for_approval", "completed", "failed", "cancelled", "waiting", "success", "active", "awaiting_approval", "unknown", "aborted", "denied"]) {
    assert.notEqual(state(s).words, s);
    assert.equal(unfinished(s), ["Waiting", "Running"].some((w) => state(s).words.startsWith(w)), s);
  }
});

test("addresses and back", () => {
  for (const place of [{ thread: "", inspect: "", tab: "", turn: "" }, { thread: "a.b/c d", inspect: "agent:x:y-1", tab: "raw", turn: "" }, { thread: "s/ü&=%", inspect: "", tab: "trace", turn: "t1" }]) {
    assert.deepEqual(read(new URL(write(place), "http://x").search), place);
  }
});

test("the sidebar's tree", () => {
  const main = (id, sessionId, updatedAt) => ({ id, kind: "main", sessionId, updatedAt, createdAt: updatedAt });
  const child = (id, parentThreadId, createdAt) => ({ id, kind: "subagent", parentThreadId, rootThreadId: "a/1", createdAt, updatedAt: createdAt });
  const list = [main("a/1", "a", "2026-01-01"), main("a/2", "a", "2026-01-03"), main("b/1", "b", "2026-01-02"), child("k2", "a/1", "2026-01-02"), child("k1", "a/1", "2026-01-01"), child("g", "k1", "2026-01-05")];
  const tree = sessions(list);
  assert.deepEqual(tree.map((s) => [s.id, s.chats.map((c) => c.thread.id)]), [["a", ["a/2", "a/1"]], ["b", ["b/1"]]]);
  assert.deepEqual(tree[0].chats[1].children.map((c) => [c.thread.id, c.children.map((g) => g.thread.id)]), [["k1", ["g"]], ["k2", []]]);
  assert.deepEqual(way(new Map(list.map((t) => [t.id, t])), "g").map((t) => t.id), ["a/1", "k1", "g"]);
});

test("what a change of a file changes", () => {
  assert.deepEqual(lines("a\nb\nc\n", "a\nB\nc\nd\n"), [[" ", "a"], ["-", "b"], ["+", "B"], [" ", "c"], ["+", "d"]]);
  assert.deepEqual(lines("", "x"), [["+", "x"]]);
  assert.deepEqual(lines("x", ""), [["-", "x"]]);
  assert.deepEqual(lines("a\nx\nb", "a\nb"), [[" ", "a"], ["-", "x"], [" ", "b"]]);
  assert.deepEqual(changes("file_edit", { path: "a", old: "1", new: "2" }), [["-", "1"], ["+", "2"]]);
  assert.deepEqual(changes("file_write", { path: "a", content: "1\n2\n" }), [["+", "1"], ["+", "2"]]);
  assert.equal(changes("shell", { command: "x" }), null);
  const long = Array.from({ length: 3000 }, (_, i) => `line ${i}`);
  const began = Date.now();
  assert.equal(lines(long.join("\n"), long.toReversed().join("\n")).length, 6000);
  assert.ok(Date.now() - began < 3000);
});

test("who answered a call in its place did not cancel it", () => {
  assert.deepEqual([{ status: "denied", errorReason: "edited" }, { status: "denied", errorReason: "denied" }, { status: "success" }].map(outcome), ["edited", "denied", "success"]);
});
