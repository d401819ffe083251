// Blocks of code, coloured once the library for it is there: it is loaded when the first
// one is shown.
import { h } from "./vendor/preact.js";
import { useEffect, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";
import { Copy } from "./copy.js";

const html = htm.bind(h);
const longest = 30_000; // what is longer stays plain

let loading;
let library;
const load = () => (loading ??= import("./vendor/highlight.js").then((m) => (library = m.default)));

// coloured are the pieces of a code: strings, and elements with a class.
function coloured(text, language) {
  if (!library?.getLanguage(language) || text.length > longest) return text;
  const draw = (n) => (typeof n === "string" ? n : h("span", n.scope ? { class: `hl-${n.scope.replace(/[^a-z0-9_-]/gi, "-").split("-")[0]}` } : {}, n.children.map(draw)));
  try {
    return library.highlight(text, { language, ignoreIllegals: true })._emitter.root.children.map(draw);
  } catch {
    return text;
  }
}

export function CodeBlock({ language, text }) {
  const [ready, setReady] = useState(Boolean(library));
  useEffect(() => {
    if (language && !ready) load().then(() => setReady(true), () => {});
  }, [language]);
  return html`<figure class="code">
    <figcaption><span>${language}</span><span class="space"></span><${Copy} text=${text} what="Copy the code" /></figcaption>
    <pre tabindex="0" role="region" aria-label=${language ? `Code, ${language}` : "Code"}><code>${ready && language ? coloured(text, language) : text}</code></pre>
  </figure>`;
}
