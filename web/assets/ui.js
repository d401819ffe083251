// The renderer's parts, and pieces that several views use.
import { h, render, Component, Fragment } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";
import { growing, parse } from "./markdown.js";
import { pretty, state, time } from "./format.js";
import { seen, visible } from "./visible.js";
import { CodeBlock } from "./code.js";
import { Copy } from "./copy.js";

export const html = htm.bind(h);
export { render, Fragment, Copy, useEffect, useLayoutEffect, useMemo, useRef, useState };

// memo draws a view again only if one of its values is another one.
export function memo(view, same = (a, b) => a === b) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const keys = new Set([...Object.keys(next), ...Object.keys(this.props)]);
      return [...keys].some((k) => !same(this.props[k], next[k]));
    }
    render(props) {
      return h(view, props);
    }
  };
}

// Status is the icon of a status. Its words are for those who cannot see it.
export function Status({ of, words }) {
  const s = state(of);
  return html`<span class="status ${of}" title=${s.words}><span class="icon" aria-hidden="true">${s.icon}</span><span class=${words ? "words" : "unseen"}>${s.words}</span></span>`;
}

// Seen is a text in which nothing hides.
export function Seen({ text }) {
  return marked(String(text ?? ""));
}

const marked = (text) => seen(text).map((p) => (p.code ? html`<mark class="hides" title="A character that cannot be seen">⟨${p.code}⟩</mark>` : p));

// When is a time of day.
export const When = ({ at }) => html`<time class="when" datetime=${at} title=${at}>${time(at)}</time>`;

// Text reads from the right if its first letter does.
const read = new Set(["p", "li", "h2", "h3", "h4", "h5", "h6", "td", "th", "blockquote"]);

const elements = (nodes, text) =>
  nodes.map((n) => {
    if (typeof n === "string") return text(n);
    if (n.tag === "code-block") return html`<${CodeBlock} language=${n.props.language} text=${n.children[0]} />`;
    const element = h(n.tag, read.has(n.tag) ? { dir: "auto", ...n.props } : n.props, ...elements(n.children, text));
    return n.tag === "table" ? h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Table" }, element) : element;
  });

const plain = (text) => text;

// Markdown is a text of a model; with decided, one that a person decides about, in which
// nothing hides.
export function Markdown({ text, decided }) {
  return html`<div class="markdown">${useMemo(() => elements(parse(text), decided ? marked : plain), [text, decided])}</div>`;
}

// Growing is a text of a model that is being written: only its end is read again.
export function Growing({ text }) {
  const known = useRef({ at: 0, parts: [] }).current;
  const all = text.replace(/\r\n?/g, "\n"); // lengths are told in these
  const { end, done, rest } = growing(all.slice(known.at));
  if (end) {
    known.parts = [...known.parts, html`<${Fragment} key=${known.at}>${elements(done, plain)}<//>`];
    known.at += end;
  }
  return html`<div class="markdown">${known.parts}${elements(rest, plain)}</div>`;
}

// Folded shows a title, and what is under it when a person opens it. What is closed
// is not in the document: an output may be long.
export function Folded({ title, open, class: kind, children, ...rest }) {
  const [isOpen, setOpen] = useState(Boolean(open));
  return html`<details class=${kind} open=${isOpen} onToggle=${(e) => setOpen(e.currentTarget.open)} ...${rest}>
    <summary>${title}</summary>${isOpen && children}
  </details>`;
}

const longest = 20_000;
// whole outputs are kept apart where a model was told a part only; what is short is
// told whole.
const surelyWhole = 1000;

// Output is text of any length: its beginning, and all of it if asked. uncut shows it all.
export function Output({ label, value, whole, cut, uncut }) {
  const text = pretty(value ?? "");
  const [all, setAll] = useState(uncut ? text : null);
  const shown = all ?? (text.length > longest ? text.slice(0, longest) + "…" : text);
  const load = async () => setAll(whole ? await whole() : text);
  const more = all === null && (whole ? cut || text.length > surelyWhole : text.length > longest);
  return html`<div class="output">
    <div class="label"><${Seen} text=${label} /><span class="space"></span>${shown && html`<${Copy} text=${() => (more ? (whole ? whole() : text) : shown)} what=${`Copy: ${label}`} />`}</div>
    <pre tabindex="0" role="region" aria-label=${visible(label)} dir="auto"><${Seen} text=${shown || (more ? "" : "(nothing)")} /></pre>
    ${more && html`<button type="button" class="quiet" onClick=${load}>Show all of it</button>`}
  </div>`;
}

// useNow is the time, renewed while active.
export function useNow(active, every = 1000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!active) return;
    setNow(Date.now());
    const t = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(t);
  }, [active, every]);
  return active ? Math.max(now, Date.now() - every) : now;
}
