// The sidebar: conversations with what works in them, by task.
import { html, Seen, Status, useEffect, useNow, useRef, useState } from "./ui.js";
import { ago, brief, cut, state, title, unfinished } from "./format.js";
import { label, sessions } from "./route.js";
import { nameOf } from "./items.js";
import { statusOf } from "./agents.js";
import { api } from "./api.js";
import { Go } from "./go.js";

// most is how many tasks of one conversation or agent are listed at once.
const most = 12;

// Tasks are what a thread has handed out, by what it is to do; agents open.
function Tasks({ model, of, chat, onGo, depth = 0 }) {
  const [all, setAll] = useState(false);
  const rows = model.tasksIn(of) ?? [];
  const agents = model.below(of).filter((t) => (t.parentThreadId || t.rootThreadId) === of);
  // An agent whose task is not read yet stands there by its name.
  const listed = new Set(rows.map((t) => t.subAgentId));
  const tasks = [...rows, ...agents.filter((t) => !listed.has(t.id)).map((t) => ({ id: t.id, type: "agent", name: `agent:${t.agentType}`, instruction: title(t.agentType), status: t.status, subAgentId: t.id, createdAt: t.createdAt }))];
  if (!tasks.length) return null;
  // What works or waits is never folded away.
  const shown = all || tasks.length <= most ? tasks : tasks.filter((t, i) => unfinished(t.status) || t.subAgentId === model.place.inspect || i >= tasks.length - most);
  const hidden = tasks.length - shown.length;
  return html`<ul class="tasks">${hidden > 0 && html`<li><button type="button" class="quiet small" onClick=${() => setAll(true)}>${hidden} more tasks</button></li>`}${shown.map((t) => {
    const thread = t.subAgentId && model.threads.get(t.subAgentId);
    const status = thread ? statusOf(t, [thread, ...model.below(thread.id)]) : t.status;
    const what = html`<${Status} of=${status} /> <span class="name" dir="auto">${t.type === "agent" ? html`<${Seen} text=${cut(nameOf(t), 80)} />` : html`<code><${Seen} text=${cut(nameOf(t), 80)} /></code>`}</span>`;
    const about = `${title(t.name.replace(/^\w+:/, ""))}: ${brief(t.instruction, 300)}`;
    return html`<li key=${t.id}>${t.subAgentId
      ? html`<${Go} model=${model} onGo=${onGo} to=${{ thread: chat.id, inspect: t.subAgentId, tab: "", turn: "" }} class="task" title=${about} aria-current=${model.place.inspect === t.subAgentId ? "true" : undefined}>${what}<span class="unseen"> ${title(t.name.replace(/^agent:/, ""))}</span><//>${depth < 6 && html`<${Tasks} model=${model} of=${t.subAgentId} chat=${chat} onGo=${onGo} depth=${depth + 1} />`}`
      : html`<span class="task tool-task" title=${about}>${what}</span>`}</li>`;
  })}</ul>`;
}

// Menu is what can be done with a conversation.
function Menu({ model, t, onRename }) {
  const [open, setOpen] = useState(false);
  const [sure, setSure] = useState(false);
  const box = useRef(null);
  const button = useRef(null);
  const close = (back) => {
    setOpen(false);
    setSure(false);
    if (back) button.current?.focus();
  };
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector("button, a")?.focus();
    const away = (e) => !box.current?.contains(e.target) && !button.current?.contains(e.target) && close();
    addEventListener("pointerdown", away);
    return () => removeEventListener("pointerdown", away);
  }, [open]);
  const keys = (e) => {
    const list = [...box.current.querySelectorAll("button, a")];
    const at = list.indexOf(document.activeElement);
    if (e.key === "Escape") close(true);
    else if (e.key === "ArrowDown") list[(at + 1) % list.length].focus();
    else if (e.key === "ArrowUp") list[(at - 1 + list.length) % list.length].focus();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return html`<span class="menu-of"><button type="button" class="quiet small more" ref=${button} aria-label=${`More for ${label(t)}`} aria-expanded=${open} onClick=${() => setOpen(!open)}>⋯</button>
    ${open && html`<div class="pop" ref=${box} onKeyDown=${keys}>
      <button type="button" class="quiet" onClick=${() => (close(), onRename())}>Rename</button>
      <a class="button quiet" href=${api.exportAddress(t.id, "md")} download onClick=${() => close()}>Export as Markdown</a>
      <a class="button quiet" href=${api.exportAddress(t.id, "json")} download onClick=${() => close()}>Export as JSON</a>
      ${sure ? html`<button type="button" class="stop" onClick=${() => (close(), model.remove(t.id))}>Delete it for good</button>` : html`<button type="button" class="quiet bad-text" onClick=${() => setSure(true)}>Delete…</button>`}
    </div>`}</span>`;
}

// Found is the text around what was looked for.
function Found({ text, wanted }) {
  const at = text.toLowerCase().indexOf(wanted.toLowerCase());
  if (at < 0) return html`<${Seen} text=${cut(text, 120)} />`;
  const from = Math.max(0, at - 30);
  return html`${from ? "…" : ""}<${Seen} text=${text.slice(from, at)} /><mark><${Seen} text=${text.slice(at, at + wanted.length)} /></mark><${Seen} text=${cut(text.slice(at + wanted.length), 80)} />`;
}

function Conversation({ model, t, now, onGo, snippet, wanted }) {
  const [name, setName] = useState(null);
  const [open, setOpen] = useState(null);
  const status = model.statusOf(t);
  const kids = model.below(t.id);
  const current = model.place.thread === t.id;
  const works = unfinished(status) || kids.some((k) => unfinished(k.status));
  const needs = model.asksOf(t.id).length;
  const has = kids.length > 0 || (model.views.get(t.id)?.turns.some((x) => x.tasks.size) ?? false);
  const shown = open ?? (works || (current && has && kids.some((k) => k.id === model.place.inspect)));
  const save = async (e) => {
    e?.preventDefault();
    if (name?.trim() && name.trim() !== label(t)) await model.rename(t.id, name.trim());
    setName(null);
  };
  if (name !== null) return html`<li><form onSubmit=${save}><input aria-label="Name of the conversation" value=${name} ref=${(e) => e && document.activeElement !== e && !e.dataset.begun && ((e.dataset.begun = "1"), e.focus(), e.select())} onInput=${(e) => setName(e.currentTarget.value)} onBlur=${save} onKeyDown=${(e) => e.key === "Escape" && (e.stopPropagation(), setName(null))} /></form></li>`;
  return html`<li class=${`${model.unread.has(t) && !current ? "unread" : ""} ${needs ? "asks" : ""}`}>
    <div class="chat-row">
      ${has ? html`<button type="button" class="quiet small twist" aria-expanded=${shown} aria-label=${`Tasks of ${label(t)}`} onClick=${() => setOpen(!shown)}>${shown ? "▾" : "▸"}</button>` : html`<span class="twist"></span>`}
      <${Go} model=${model} onGo=${onGo} to=${{ thread: t.id, inspect: "", tab: "", turn: "" }} class="chat" aria-current=${current ? "page" : undefined} title=${t.id}>
        <span class="name"><bdi>${label(t)}</bdi>${model.unread.has(t) && !current ? html`<span class="dot" title="New"></span><span class="unseen"> (new)</span>` : ""}</span>
        ${needs ? html`<span class="needs" title="Waits for you">${needs}</span>` : ""}${needs ? html`<span class="unseen">${state(status).words}</span>` : works || t.status === "failed" ? html`<${Status} of=${status} />` : html`<span class="dim when">${ago(t.updatedAt, now)}</span><span class="status ${status}"><span class="unseen">${state(status).words}</span></span>`}
      <//><${Menu} model=${model} t=${t} onRename=${() => setName(label(t))} />
    </div>
    ${snippet && html`<p class="snippet dim"><${Found} text=${snippet} wanted=${wanted} /></p>`}
    ${shown && html`<${Tasks} model=${model} of=${t.id} chat=${t} onGo=${onGo} />`}
  </li>`;
}

export function Sidebar({ model, onGo }) {
  const now = useNow(true, 30_000);
  const [wanted, setWanted] = useState("");
  const [found, setFound] = useState(null);
  useEffect(() => {
    if (!wanted.trim()) return setFound(null);
    let gone = false;
    const t = setTimeout(async () => {
      const list = await model.act((a) => a.threads({ q: wanted.trim(), limit: 50 }));
      if (!gone && list) setFound(list.threads);
    }, 200);
    return () => {
      gone = true;
      clearTimeout(t);
    };
  }, [wanted]);
  const all = sessions([...model.threads.values()]);
  const row = (t, more = {}) => html`<${Conversation} key=${t.id} model=${model} t=${model.threads.get(t.id) ?? t} now=${now} onGo=${onGo} ...${more} />`;
  return html`<nav class="sidebar" aria-label="Conversations">
    <${Go} model=${model} onGo=${onGo} to=${{ thread: "", inspect: "", tab: "", turn: "" }} class="button new"><span aria-hidden="true">+ </span>New conversation<//>
    <input type="search" id="find" placeholder="Search titles and texts" aria-label="Search titles and texts" value=${wanted} onInput=${(e) => setWanted(e.currentTarget.value)} onKeyDown=${(e) => e.key === "Escape" && wanted && (e.stopPropagation(), setWanted(""))} />
    ${found ? html`<p class="dim small" role="status">${found.length ? `${found.length} found` : "Nothing found."}</p><ul class="sessions">${found.map((t) => row(t, { snippet: t.snippet, wanted: wanted.trim() }))}</ul>`
      : html`${!all.length && html`<p class="dim">No conversation yet.</p>`}
    <ul class="sessions">${all.map((s) => html`<li key=${s.id}>
      ${s.chats.length > 1 && html`<div class="session dim" title=${s.id}>session ${cut(s.id, 9)}</div>`}
      <ul>${s.chats.map(({ thread: t }) => row(t))}</ul>
    </li>`)}</ul>
    ${model.older && html`<button type="button" class="quiet" onClick=${() => model.loadOlder()}>Older conversations</button>`}`}
  </nav>`;
}

