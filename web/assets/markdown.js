// Markdown as a tree of plain values, which a renderer makes elements of. Text of a
// model is hostile: nothing of it becomes markup, a script, a request or an address
// other than http, https and mailto. Knows no browser: tested by node.
import { Lexer } from "./vendor/marked.js";

// longest is up to where text is read as Markdown; what is longer is shown as it is.
const longest = 200_000;
// deepest bounds nesting: engines overflow their stack long after a reader has given up.
const deepest = 40;

const entities = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", hellip: "…", mdash: "—", ndash: "–", copy: "©", rarr: "→", larr: "←", times: "×", deg: "°" };

// decode turns character references into their characters.
export function decode(text) {
  return text.replace(/&(#x[0-9a-f]{1,6}|#\d{1,7}|[a-z]+);/gi, (whole, name) => {
    if (name[0] !== "#") return entities[name] ?? whole;
    const code = name[1] === "x" || name[1] === "X" ? parseInt(name.slice(2), 16) : parseInt(name.slice(1), 10);
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) ? String.fromCodePoint(code) : "\ufffd";
  });
}

// safeLink returns the address if a person may be led there, else "".
export function safeLink(href) {
  let url;
  try {
    url = new URL(decode(href));
  } catch {
    return ""; // relative: it would lead into this page
  }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : "";
}

// safeImage returns the address of an image that comes with the text, else "": one
// from elsewhere would tell its server that the text was read.
export function safeImage(src) {
  return /^data:image\/(png|jpeg|gif|webp);base64,[a-z0-9+/=]+$/i.test(src) ? src : "";
}

// parse returns the nodes of a Markdown text: strings and {tag, props, children}.
export function parse(text) {
  if (text.length > longest) return [node("pre", {}, [text])];
  try {
    return blocks(lex(text), 0);
  } catch {
    return [node("pre", {}, [text])];
  }
}

// growing reads a text that is still being written: done are the blocks, up to end, that
// stay as they are whatever follows; a later look needs the text from there only.
export function growing(text) {
  if (text.length > longest) return { end: 0, done: [], rest: parse(text) };
  try {
    const tokens = lex(text);
    // The last block grows, and the one before it may yet become a part of it.
    const written = tokens.flatMap((t, i) => (t.type === "space" ? [] : [i]));
    const done = tokens.slice(0, written.at(-2) ?? 0);
    return { end: done.reduce((n, t) => n + t.raw.length, 0), done: blocks(done, 0), rest: blocks(tokens.slice(done.length), 0) };
  } catch {
    return { end: 0, done: [], rest: [node("pre", {}, [text])] };
  }
}

const lex = (text) => new Lexer({ gfm: true, breaks: true }).lex(text);

const node = (tag, props, children) => ({ tag, props, children });

function blocks(tokens, depth) {
  if (depth > deepest) return [tokens.map((t) => t.raw).join("")];
  return tokens.flatMap((t) => block(t, depth));
}

function block(t, depth) {
  switch (t.type) {
    case "space":
    case "def":
      return [];
    case "heading":
      // The page has the first rank.
      return [node(`h${Math.min(t.depth + 1, 6)}`, {}, inlines(t.tokens, depth + 1))];
    case "paragraph":
      return [node("p", {}, inlines(t.tokens, depth + 1))];
    case "code": {
      const language = /^[\w+#.-]{1,32}/.exec(t.lang ?? "")?.[0] ?? "";
      return [node("code-block", { language }, [t.text])];
    }
    case "blockquote":
      return [node("blockquote", {}, blocks(t.tokens, depth + 1))];
    case "list":
      return [node(t.ordered ? "ol" : "ul", t.ordered && t.start !== 1 ? { start: Number(t.start) || 1 } : {}, t.items.map((i) => item(i, depth + 1)))];
    case "table":
      return [table(t, depth + 1)];
    case "hr":
      return [node("hr", {}, [])];
    case "text":
      return t.tokens ? inlines(t.tokens, depth + 1) : [decode(t.text)];
    default: // html and what a later version may bring: as written
      return [node("p", {}, [t.raw])];
  }
}

function item(i, depth) {
  const children = blocks(i.tokens.filter((t) => t.type !== "checkbox"), depth);
  return node("li", i.task ? { class: "task" } : {}, i.task ? [i.checked ? "☑ " : "☐ ", ...children] : children);
}

function table(t, depth) {
  const cell = (tag) => (c, k) => node(tag, t.align[k] ? { class: `to-${t.align[k]}` } : {}, inlines(c.tokens, depth));
  return node("table", {}, [
    node("thead", {}, [node("tr", {}, t.header.map(cell("th")))]),
    node("tbody", {}, t.rows.map((r) => node("tr", {}, r.map(cell("td"))))),
  ]);
}

function inlines(tokens, depth) {
  if (depth > deepest) return [tokens.map((t) => t.raw).join("")];
  return tokens.flatMap((t) => inline(t, depth));
}

function inline(t, depth) {
  switch (t.type) {
    case "text":
      return t.tokens ? inlines(t.tokens, depth + 1) : [decode(t.text)];
    case "escape":
      return [t.text];
    case "strong":
    case "em":
    case "del":
      return [node(t.type, {}, inlines(t.tokens, depth + 1))];
    case "codespan":
      return [node("code", {}, [t.text])];
    case "br":
      return [node("br", {}, [])];
    case "link": {
      const href = safeLink(t.href);
      const inner = inlines(t.tokens, depth + 1);
      return href ? [node("a", { href, rel: "noopener noreferrer nofollow", target: "_blank" }, inner)] : inner;
    }
    case "image": {
      const src = safeImage(t.href);
      if (src) return [node("img", { src, alt: t.text }, [])];
      const href = safeLink(t.href);
      const label = `image: ${t.text || t.href}`;
      return href ? [node("a", { href, rel: "noopener noreferrer nofollow", target: "_blank" }, [label])] : [label];
    }
    case "checkbox":
      return [];
    default:
      return [t.raw];
  }
}
