// What is laid over the page: the command palette, the help sheet, and what keys do.
import { html, Seen, useLayoutEffect, useRef, useState } from "./ui.js";
import { state } from "./format.js";
import { label } from "./route.js";

// useModal keeps the focus inside from the moment it is seen, and gives it back at the end.
function useModal(box, close) {
  useLayoutEffect(() => {
    const opener = document.activeElement;
    box.current?.querySelector("input, button")?.focus();
    return () => opener?.isConnected && opener.focus();
  }, []);
  return (e) => {
    if (e.key === "Escape") {
      e.preventDefault();
      e.stopPropagation();
      close();
    } else if (e.key === "Tab") {
      const list = [...box.current.querySelectorAll("input, button, a[href], [tabindex='0']")];
      const last = e.shiftKey ? list[0] : list.at(-1);
      if (document.activeElement !== last) return;
      e.preventDefault();
      (e.shiftKey ? list.at(-1) : list[0]).focus();
    }
  };
}

// commands are what can be done where the person is.
export function commands(model, ui) {
  const t = model.threads.get(model.place.thread);
  const list = [
    { name: "New conversation", key: "N", run: () => model.go({ thread: "", inspect: "", tab: "", turn: "" }) },
    { name: "Search titles and texts", run: () => (ui.openList(), requestAnimationFrame(() => document.getElementById("find")?.focus())) },
    { name: "All keys", key: "?", run: () => ui.show("help") },
    { name: "Colours: light", run: () => ui.theme("light") },
    { name: "Colours: dark", run: () => ui.theme("dark") },
    { name: "Colours: as the system", run: () => ui.theme("") },
    { name: "Log out", run: () => model.logout() },
  ];
  const next = model.asks.find((a) => a.rootThreadId !== model.place.thread) ?? model.asks[0];
  const first = next ? [{ name: `Go to what needs you (${model.asks.length})`, run: () => model.go({ thread: next.rootThreadId }) }] : [];
  if (!t) return [...first, ...list];
  return [
    ...first,
    { name: "Inspect this conversation", key: "I", run: () => model.go({ inspect: t.id, tab: "", turn: "" }) },
    { name: "Trace of this conversation", key: "T", run: () => model.go({ inspect: t.id, tab: "trace", turn: "" }) },
    ...(t.openTurnId ? [{ name: "Stop this turn", run: () => model.cancel(false) }, { name: "Stop all, also what waits and what runs in the background", run: () => model.cancel(true) }] : [{ name: "Retry the last turn", run: () => model.retry() }]),
    ...list,
  ];
}

export function Palette({ model, ui }) {
  const box = useRef(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const keep = useModal(box, ui.close);
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (name) => wanted.every((w) => name.toLowerCase().includes(w));
  const chats = [...model.threads.values()].filter((t) => t.kind === "main").sort((a, b) => Date.parse(b.updatedAt) - Date.parse(a.updatedAt));
  const rows = [
    ...commands(model, ui).filter((c) => fits(c.name)).slice(0, wanted.length ? 20 : 5),
    ...chats.filter((t) => fits(`${label(t)} ${t.id}`)).slice(0, 12).map((t) => ({ name: label(t), chat: t, run: () => model.go({ thread: t.id }) })),
  ];
  const k = Math.min(at, rows.length - 1);
  const run = (r) => {
    ui.close();
    r?.run();
  };
  const keys = (e) => {
    if (e.key === "ArrowDown") setAt(Math.min(k + 1, rows.length - 1));
    else if (e.key === "ArrowUp") setAt(Math.max(k - 1, 0));
    else if (e.key === "Enter") run(rows[k]);
    else return keep(e);
    e.preventDefault();
    e.stopPropagation();
  };
  return html`<div class="over" onClick=${(e) => e.target === e.currentTarget && ui.close()}><div class="sheet palette" role="dialog" aria-modal="true" aria-label="Find and do" ref=${box} onKeyDown=${keys}>
    <input type="text" role="combobox" aria-expanded="true" aria-controls="found" aria-activedescendant=${rows.length ? `found-${k}` : undefined} aria-label="Find a conversation or a command" placeholder="Find a conversation or a command" value=${text} onInput=${(e) => (setText(e.currentTarget.value), setAt(0))} />
    <ul role="listbox" id="found" aria-label="Found">${rows.map((r, i) => html`<li role="option" id=${`found-${i}`} key=${r.chat?.id ?? r.name} aria-selected=${i === k} ref=${(e) => i === k && e?.scrollIntoView({ block: "nearest" })} onClick=${() => run(r)}>${r.chat ? html`<span class="status ${r.chat.status}" aria-hidden="true">${state(r.chat.status).icon}</span> ` : html`<span class="dim" aria-hidden="true">→ </span>`}<span class="name"><${Seen} text=${r.name} /></span>${r.key && html`<kbd>${r.key}</kbd>`}</li>`)}</ul>
    ${!rows.length && html`<p class="dim" role="status">Nothing fits.</p>`}</div></div>`;
}

const keys = [
  ["Ctrl K or ⌘ K", "find a conversation or a command"],
  ["/", "write a message"],
  ["N", "new conversation"],
  ["J, K", "next and previous conversation"],
  ["A, D, E, R", "approve, deny, edit, or reply instead of what asks first"],
  ["I, T", "inspect this conversation, its trace"],
  ["Enter", "send; Shift Enter makes a line"],
  ["Esc", "close what is open"],
  ["?", "this list"],
];

export function Help({ ui }) {
  const box = useRef(null);
  const keep = useModal(box, ui.close);
  return html`<div class="over" onClick=${(e) => e.target === e.currentTarget && ui.close()}><div class="sheet help" role="dialog" aria-modal="true" aria-labelledby="help-title" ref=${box} onKeyDown=${keep}>
    <header class="row"><h2 id="help-title">Keys</h2><span class="space"></span><button type="button" class="quiet" aria-label="Close" onClick=${ui.close}>✕</button></header>
    <dl>${keys.map(([k, what]) => html`<div key=${k}><dt>${k.split(/(, | or )/).map((p) => (/, | or /.test(p) ? p : html`<kbd>${p}</kbd>`))}</dt><dd>${what}</dd></div>`)}</dl></div></div>`;
}

// shortcut does what a key means where nothing is being written.
export function shortcut(e, model, ui) {
  if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") {
    e.preventDefault();
    return ui.show("palette");
  }
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
  if (e.key === "Escape") {
    if (ui.sheet) ui.close(); // the focus may not be in it yet
    else if (ui.drawer) ui.closeList();
    else if (model.place.inspect) model.go({ inspect: "", tab: "", turn: "" });
    return;
  }
  if (ui.sheet || (e.target instanceof Element && e.target.closest("input, textarea, select, [contenteditable]"))) return;
  const press = (key) => {
    const b = document.querySelector(`.card[data-first] [data-key=${key}]:not([disabled])`);
    b?.focus();
    b?.click();
    return Boolean(b);
  };
  const chats = [...document.querySelectorAll(".sidebar a.chat")];
  const at = chats.findIndex((a) => a.getAttribute("aria-current"));
  const does = {
    "/": () => document.getElementById("text")?.focus(),
    "?": () => ui.show("help"),
    n: () => model.go({ thread: "", inspect: "", tab: "", turn: "" }),
    j: () => chats[Math.min(at + 1, chats.length - 1)]?.click(),
    k: () => chats[Math.max(at - 1, 0)]?.click(),
    i: () => model.place.thread && model.go({ inspect: model.place.thread, tab: "", turn: "" }),
    t: () => model.place.thread && model.go({ inspect: model.place.inspect || model.place.thread, tab: "trace", turn: "" }),
    a: () => press("a"),
    d: () => press("d"),
    e: () => press("e"),
    r: () => press("r"),
  }[e.key];
  if (!does) return;
  e.preventDefault();
  does();
}
