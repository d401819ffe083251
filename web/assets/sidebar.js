// The sidebar: sessions, their conversations, and under each its sub-agents.
import { html, Status, useNow, useState } from "./ui.js";
import { ago, title } from "./format.js";
import { label, sessions, write } from "./route.js";

// Go is a link within the page.
export function Go({ model, to, children, ...rest }) {
  const place = to.thread !== undefined && to.thread !== model.place.thread ? { thread: "", inspect: "", turn: "", ...to } : { ...model.place, ...to };
  const click = (e) => {
    if (e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
    e.preventDefault();
    rest.onGo?.();
    model.go(to);
  };
  const { onGo, ...attributes } = rest;
  return html`<a href=${write(place)} onClick=${click} ...${attributes}>${children}</a>`;
}

function Tasks({ model, nodes, chat, onGo }) {
  if (!nodes.length) return null;
  return html`<ul class="tasks">${nodes.map(({ thread: t, children }) => html`<li key=${t.id}>
    <${Go} model=${model} onGo=${onGo} to=${{ thread: chat.id, inspect: t.id, turn: "" }} class="task" aria-current=${model.place.inspect === t.id ? "true" : undefined}>
      <${Status} of=${t.status} /> ${title(t.agentType)}
    <//>
    <${Tasks} model=${model} nodes=${children} chat=${chat} onGo=${onGo} />
  </li>`)}</ul>`;
}

export function Sidebar({ model, onGo }) {
  const now = useNow(true, 30_000);
  const [filter, setFilter] = useState("");
  const wanted = filter.toLowerCase();
  const all = sessions([...model.threads.values()]);
  const list = !wanted ? all : all.map((s) => ({ ...s, chats: s.chats.filter((c) => (label(c.thread) + c.thread.id).toLowerCase().includes(wanted)) })).filter((s) => s.chats.length);
  return html`<nav class="sidebar" aria-label="Conversations">
    <div class="row top"><${Go} model=${model} onGo=${onGo} to=${{ thread: "", inspect: "", turn: "" }} class="button main">New conversation<//></div>
    <input type="search" placeholder="Find" aria-label="Find a conversation" value=${filter} onInput=${(e) => setFilter(e.currentTarget.value)} />
    ${!all.length && html`<p class="dim">No conversation yet.</p>`}
    <ul class="sessions">${list.map((s) => html`<li key=${s.id}>
      ${s.chats.length > 1 && html`<div class="session dim" title=${s.id}>${s.id}</div>`}
      <ul>${s.chats.map(({ thread: t, children }) => html`<li key=${t.id}>
        <${Go} model=${model} onGo=${onGo} to=${{ thread: t.id, inspect: "", turn: "" }} class="chat" aria-current=${model.place.thread === t.id ? "page" : undefined} title=${t.id}>
          <${Status} of=${t.status} /><span class="name">${label(t)}</span><span class="dim when">${ago(t.updatedAt, now)}</span>
        <//>
        <${Tasks} model=${model} nodes=${children} chat=${t} onGo=${onGo} />
      </li>`)}</ul>
    </li>`)}</ul>
  </nav>`;
}
