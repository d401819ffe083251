// The renderer's parts, and pieces that several views use.
import { h, render, Fragment } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";
import { parse } from "./markdown.js";
import { pretty, state } from "./format.js";
import { seen, visible } from "./visible.js";

export const html = htm.bind(h);
export { render, Fragment, useEffect, useLayoutEffect, useMemo, useRef, useState };

// Status is the icon of a status. Its words are for those who cannot see it.
export function Status({ of, words }) {
  const s = state(of);
  return html`<span class="status ${of}" title=${s.words}><span class="icon" aria-hidden="true">${s.icon}</span><span class=${words ? "" : "unseen"}>${s.words}</span></span>`;
}

// Seen is a text in which nothing hides.
export function Seen({ text }) {
  return seen(String(text ?? "")).map((p) => (p.code ? html`<mark class="hides" title="A character that cannot be seen">⟨${p.code}⟩</mark>` : p));
}

function CodeBlock({ language, text }) {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      say("Copying is not allowed here");
    }
    setTimeout(() => say(""), 2000);
  };
  return html`<figure class="code">
    <figcaption><span>${language}</span><span role="status">${said}</span><button type="button" class="quiet" onClick=${copy}>Copy</button></figcaption>
    <pre tabindex="0" role="region" aria-label=${language ? `Code, ${language}` : "Code"}><code>${text}</code></pre>
  </figure>`;
}

const elements = (nodes) =>
  nodes.map((n) => {
    if (typeof n === "string") return n;
    if (n.tag === "code-block") return html`<${CodeBlock} language=${n.props.language} text=${n.children[0]} />`;
    const element = h(n.tag, n.props, ...elements(n.children));
    return n.tag === "table" ? h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Table" }, element) : element;
  });

export function Markdown({ text }) {
  return html`<div class="markdown">${useMemo(() => elements(parse(text)), [text])}</div>`;
}

// Folded shows a title, and what is under it when a person opens it. What is closed
// is not in the document: an output may be long.
export function Folded({ title, open, class: kind, children }) {
  const [isOpen, setOpen] = useState(Boolean(open));
  return html`<details class=${kind} open=${isOpen} onToggle=${(e) => setOpen(e.currentTarget.open)}>
    <summary>${title}</summary>${isOpen && children}
  </details>`;
}

const longest = 20_000;
// whole outputs are kept apart where a model was told a part only; what is short is
// told whole.
const surelyWhole = 1000;

// Output is text of any length: its beginning, and all of it if asked. uncut shows it all.
export function Output({ label, value, whole, uncut }) {
  const text = pretty(value ?? "");
  const [all, setAll] = useState(uncut ? text : null);
  const shown = all ?? (text.length > longest ? text.slice(0, longest) + "…" : text);
  const load = async () => setAll(whole ? await whole() : text);
  return html`<div class="output">
    <div class="label"><${Seen} text=${label} /></div>
    <pre tabindex="0" role="region" aria-label=${visible(label)}><${Seen} text=${shown} /></pre>
    ${all === null && (whole ? text.length > surelyWhole : text.length > longest) && html`<button type="button" class="quiet" onClick=${load}>Show all of it</button>`}
  </div>`;
}

// useNow is the time, renewed while active.
export function useNow(active, every = 1000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!active) return;
    const t = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(t);
  }, [active, every]);
  return now;
}
