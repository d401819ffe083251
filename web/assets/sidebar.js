// The sidebar: sessions, their conversations, and under each its sub-agents.
import { html, Status, useNow, useState } from "./ui.js";
import { ago, title, unfinished } from "./format.js";
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

// most is how many sub-agents of one conversation or agent are listed at once.
const most = 12;

function Tasks({ model, nodes, chat, onGo }) {
  const [all, setAll] = useState(false);
  if (!nodes.length) return null;
  // What works or waits is never folded away.
  const shown = all || nodes.length <= most ? nodes : nodes.filter((n, i) => unfinished(n.thread.status) || n.thread.id === model.place.inspect || i >= nodes.length - most);
  const hidden = nodes.length - shown.length;
  return html`<ul class="tasks">${hidden > 0 && html`<li><button type="button" class="quiet" onClick=${() => setAll(true)}>${hidden} more sub-agents</button></li>`}${shown.map(({ thread: t, children }) => html`<li key=${t.id}>
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
          <${Status} of=${t.status} /><span class="name"><bdi>${label(t)}</bdi></span><span class="dim when">${ago(t.updatedAt, now)}</span>
        <//>
        <${Tasks} model=${model} nodes=${children} chat=${t} onGo=${onGo} />
      </li>`)}</ul>
    </li>`)}</ul>
    ${model.older && html`<button type="button" class="quiet" onClick=${() => model.loadOlder()}>Older conversations</button>`}
  </nav>`;
}
