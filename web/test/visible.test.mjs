import { test } from "node:test";
import assert from "node:assert/strict";
import { seen, visible } from "../assets/visible.js";

test("what hides is shown", () => {
  assert.deepEqual(seen("rm \u202Etxt.exe"), ["rm ", { code: "U+202E" }, "txt.exe"]);
  assert.deepEqual(seen(""), []);
  assert.equal(visible(undefined), "");
  assert.equal(visible("a\u200bb\u009bc\u{e0041}\u3164\u00a0\r\0\ud800"), "a⟨U+200B⟩b⟨U+009B⟩c⟨U+E0041⟩⟨U+3164⟩⟨U+00A0⟩⟨U+000D⟩⟨U+0000⟩⟨U+D800⟩");
  assert.equal(visible("Grüße, 世界\n\t👋 ⚠️ a\\b"), "Grüße, 世界\n\t👋 ⚠️ a\\b");
  assert.equal(visible("ls\ufe0f"), "ls⟨U+FE0F⟩");
});

test("what passes for something else is shown", () => {
  assert.equal(visible("cat /еtc/hosts http://аpple.com http://сосо.com"), "cat /⟨U+0435⟩tc/hosts http://⟨U+0430⟩pple.com http://⟨U+0441⟩⟨U+043E⟩⟨U+0441⟩⟨U+043E⟩.com");
  assert.equal(visible("a" + "\u0301".repeat(5)), "a" + "⟨U+0301⟩".repeat(5));
  assert.equal(visible("rm фото.png Δt сор ἀρχή é"), "rm фото.png Δt сор ἀρχή é");
});

// The Go test gives the characters that a terminal does not show, as ranges.
test("the page hides no less than a terminal", { skip: !process.env.UNSEEN && "is part of go test" }, () => {
  for (const range of process.env.UNSEEN.split(" ")) {
    const [from, to] = range.split("-").map((n) => parseInt(n, 16));
    for (let c = from; c <= to; c++) {
      const shown = visible(`a${String.fromCodePoint(c)}b`);
      if (c !== 9 && c !== 10) assert.equal(shown, `a⟨U+${c.toString(16).toUpperCase().padStart(4, "0")}⟩b`);
    }
  }
});
