import { test } from "node:test";
import assert from "node:assert/strict";
import { growing, parse, safeImage, safeLink, decode } from "../assets/markdown.js";

const flat = (nodes) => nodes.flatMap((n) => (typeof n === "string" ? [] : [n, ...flat(n.children)]));
const tags = (md) => flat(parse(md)).map((n) => n.tag);
const text = (nodes) => nodes.map((n) => (typeof n === "string" ? n : text(n.children))).join("");

test("what people write becomes elements", () => {
  assert.deepEqual(tags("# A\n\nb **c** _d_ `e` ~~f~~"), ["h2", "p", "strong", "em", "code", "del"]);
  assert.deepEqual(tags("- [x] a\n- b\n\n3. c"), ["ul", "li", "li", "ol", "li"]);
  assert.equal(text(parse("- [x] a")), "☑ a");
  assert.deepEqual(tags("|a|b|\n|-|-:|\n|1|2|"), ["table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]);
  const [code] = parse("```go\nif a < b {}\n```");
  assert.deepEqual(code, { tag: "code-block", props: { language: "go" }, children: ["if a < b {}"] });
  assert.equal(text(parse("a &amp; b &lt;c&gt; &#65; `&amp;`")), "a & b <c> A &amp;");
  const link = flat(parse("[x](https://a.test/b?c=d&e)"))[1];
  assert.equal(link.props.href, "https://a.test/b?c=d&e");
  assert.match(link.props.rel, /noopener/);
});

test("hostile text stays text", () => {
  const known = new Set("p h2 h3 h4 h5 h6 ul ol li strong em del code code-block br hr blockquote table thead tbody tr th td a img pre".split(" "));
  const hostile = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a <b onclick=x>c</b>", "<iframe src=https://a.test></iframe>", "<style>*{display:none}</style>",
    "[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](&#106;avascript:alert(1))", "[x](data:text/html,<script>alert(1)</script>)", "[x](vbscript:x)", "[x](/logout)", "[x](//a.test)",
    "![x](https://a.test/seen.png)", "![x](data:image/svg+xml;base64,AAAA)", "<https://a.test/>", "[a]: javascript:x\n\n[a]", "\u0000<a href='x'>", "```\"><script>\nx\n```", "```js onload=x\ny\n```",
  ];
  for (const md of hostile) {
    for (const n of flat(parse(md))) {
      assert.ok(known.has(n.tag), `${md}: ${n.tag}`);
      for (const p of Object.keys(n.props)) assert.ok(["href", "rel", "target", "src", "alt", "class", "start", "language"].includes(p), `${md}: ${p}`);
      if (n.props.href) assert.match(n.props.href, /^(https?|mailto):/, md);
      if (n.props.src) assert.match(n.props.src, /^data:image\/(png|jpeg|gif|webp);/, md);
      if (n.props.language) assert.match(n.props.language, /^[\w+#.-]+$/, md);
    }
  }
  assert.equal(tags("![x](https://a.test/seen.png)").includes("img"), false);
});

test("no text is too deep, too long or too odd", () => {
  for (const md of [">".repeat(20_000) + "x", "[".repeat(20_000), "*".repeat(50_000) + "a", "- ".repeat(3_000) + "x", "`".repeat(10_001), "|".repeat(5_000), "x".repeat(300_000), "\ud800 lone"]) {
    const began = Date.now();
    assert.ok(Array.isArray(parse(md)));
    assert.ok(Date.now() - began < 5_000, md.slice(0, 10));
  }
});

test("addresses", () => {
  assert.equal(safeLink("mailto:a@b.test"), "mailto:a@b.test");
  for (const bad of ["", "x", "#a", "file:///etc/passwd", "blob:https://a", " javascript:1", "java\nscript:alert(1)"]) assert.equal(safeLink(bad), "", bad);
  assert.equal(safeImage("data:image/png;base64,iVBORw0="), "data:image/png;base64,iVBORw0=");
  assert.equal(safeImage("data:image/png;base64,a\" onerror=x"), "");
  assert.equal(decode("&#xD800;&#0;&unknown;"), "\ufffd\ufffd&unknown;");
});

test("what is read while it is written is what is read in the end", () => {
  const written = "# A\n\nb **c**\nd\n\n- one\n\n  more of it\n- two\n  1. deep\n\nTitle\n=====\n\n|a|b|\n|-|-|\n|1|2|\n\n> q\nlazy\n\n```go\nf()\n\ng()\n```\n\n    code\n\n***\nlast";
  let at = 0;
  let read = [];
  for (let n = 0; n <= written.length; n += 3) {
    const { end, done, rest } = growing(written.slice(at, n));
    read = [...read, ...done];
    at += end;
    assert.deepEqual([...read, ...rest], parse(written.slice(0, n)), written.slice(0, n));
  }
  assert.ok(at > written.length / 2, "most of it is read once");
  assert.deepEqual(growing("w ".repeat(200_000)).rest, parse("w ".repeat(200_000)));
});
