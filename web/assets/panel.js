// The Sub-Agent Inspector: a thread beside the chat, as the agent's work, as a trace, or
// raw. It only reads. The main thread can be looked at, too.
import { html, Copy, Folded, Output, Status, useEffect, useNow, useRef, useState } from "./ui.js";
import { duration, figures, price, title, tokens, unfinished } from "./format.js";
import { statusOf } from "./agents.js";
import { Turns, Working, useBottom } from "./chat.js";
import { Trace } from "./trace.js";
import { label } from "./route.js";
import { Go } from "./go.js";

const names = { agent: "Agent", trace: "Trace", raw: "Raw" };

function Crumbs({ model, id }) {
  const path = model.way(id);
  return html`<nav class="crumbs" aria-label="Way from the chat"><ol>${path.map((p, i) => {
    const name = p.kind === "main" ? "Chat" : title(p.agentType);
    if (i === path.length - 1) return html`<li key=${p.id}><span aria-current="location">${name}</span></li>`;
    return html`<li key=${p.id}><${Go} model=${model} to=${{ inspect: p.kind === "main" ? "" : p.id, turn: "" }}>${name}<//></li>`;
  })}</ol></nav>`;
}

function Children({ model, of }) {
  const list = model.below(of).filter((t) => t.parentThreadId === of);
  if (!list.length) return null;
  return html`<ul class="tasks">${list.map((t) => html`<li key=${t.id}><${Go} model=${model} to=${{ inspect: t.id, turn: "" }} class="task"><${Status} of=${t.status} /> ${title(t.agentType)} <span class="dim">${figures(duration(t.totalTimeMs), tokens(t.totalTokens))}</span><//><${Children} model=${model} of=${t.id} /></li>`)}</ul>`;
}

// Agent is the thread as the agent sees it.
function Agent({ model, view, t, running }) {
  const { box, scrolled, away, latest } = useBottom(view, () => model.earlier(t.id));
  const prompt = view.thread.config?.systemPrompt;
  // A thread that has just begun had no settings yet when it was read.
  useEffect(() => {
    if (!prompt && !running) model.settings(t.id);
  }, [prompt, running]);
  const told = view.turns.some((x) => x.messages.some((m) => m.role === "system"));
  const kids = model.below(t.id).filter((k) => k.parentThreadId === t.id);
  return html`<div class="reading"><div class="log" ref=${box} onScroll=${scrolled} tabindex="0" role="region" aria-label="Thread of ${t.agentType ?? label(t)}"><div class="measure">
      ${prompt && !told && html`<${Folded} key="prompt" class="thought system" title="System prompt"><${Output} label="System prompt" value=${prompt} uncut /><//>`}
      ${kids.length > 0 && html`<${Folded} key="children" class="children" open title=${`${kids.length} ${kids.length === 1 ? "sub-agent" : "sub-agents"}`}><${Children} model=${model} of=${t.id} /><//>`}
      ${view.firstSeq > 1 && html`<button type="button" class="quiet earlier" onClick=${() => model.earlier(t.id)}>Earlier messages</button>`}
      <${Turns} model=${model} view=${view} chat="" who="Agent" last=${false} />
      ${running && html`<${Working} view=${view} works=${!view.turns.at(-1)?.streams.size} />`}
    </div></div>${away && html`<button type="button" class="latest" onClick=${latest}>↓ Latest</button>`}</div>
    <footer class="dim small pad">${t.kind === "main" ? "Read only: write in the chat." : "Read only: its parent talks to it."}</footer>`;
}

// Raw is what the store holds of the thread.
function Raw({ model, id, version }) {
  const [raw, setRaw] = useState(null);
  useEffect(() => {
    let gone = false;
    const t = setTimeout(() => model.act((a) => a.show(id, { events: true })).then((v) => v && !gone && setRaw(v)), raw ? 1000 : 0);
    return () => {
      gone = true;
      clearTimeout(t);
    };
  }, [id, version]);
  if (!raw) return html`<div class="log"><p class="dim">Loading…</p></div>`;
  const parts = Object.entries({ thread: raw.thread, messages: raw.messages, toolCalls: raw.toolCalls, tasks: raw.tasks, events: raw.events, inbox: raw.inbox, waits: raw.waits, approvals: raw.approvals, questions: raw.questions }).filter(([, v]) => v && (!Array.isArray(v) || v.length));
  return html`<div class="log raw" tabindex="0" role="region" aria-label="Raw"><div class="row"><code>${id}</code><span class="space"></span><${Copy} text=${() => JSON.stringify(raw, null, 2)} what="Copy everything" label="Copy all" /></div>
    ${parts.map(([name, v]) => html`<${Folded} key=${name} title=${html`${name} <span class="dim">${Array.isArray(v) ? v.length : ""}</span>`}><${Output} label=${name} value=${v} /><//>`)}</div>`;
}

// Grip changes the width of the panel.
function Grip() {
  const set = (px) => {
    const width = Math.round(Math.min(Math.max(px, 320), innerWidth * 0.7));
    document.documentElement.style.setProperty("--panel", `${width}px`);
    try {
      localStorage.setItem("panel", String(width));
    } catch {
      // It lasts as long as the page.
    }
  };
  const width = (e) => e.closest("aside").getBoundingClientRect().width;
  const move = (e) => e.currentTarget.hasPointerCapture(e.pointerId) && set(innerWidth - e.clientX);
  const keys = (e) => {
    const by = { ArrowLeft: 24, ArrowRight: -24 }[e.key];
    if (!by) return;
    e.preventDefault();
    set(width(e.currentTarget) + by);
  };
  return html`<div class="grip" role="separator" aria-orientation="vertical" aria-label="Width of the panel" aria-valuenow=${Math.round(innerWidth / 2)} tabindex="0" onPointerDown=${(e) => e.currentTarget.setPointerCapture(e.pointerId)} onPointerMove=${move} onKeyDown=${keys}></div>`;
}

try {
  const kept = Number(localStorage.getItem("panel"));
  if (kept) document.documentElement.style.setProperty("--panel", `${kept}px`);
} catch {
  // As wide as the style says.
}

export function Panel({ model }) {
  const id = model.place.inspect;
  const tab = model.place.tab || "agent";
  const view = model.views.get(id);
  const t = model.threads.get(id) ?? view?.thread;
  const heading = useRef(null);
  const opener = useRef(document.activeElement);
  useEffect(() => heading.current?.focus(), [id]);
  useEffect(() => () => opener.current?.isConnected && opener.current.focus(), []);
  const running = Boolean(t && unfinished(t.status));
  const now = useNow(running);
  const close = html`<button type="button" class="quiet" onClick=${() => model.go({ inspect: "", tab: "", turn: "" })} aria-label="Close the inspector">✕</button>`;
  const name = t?.kind === "main" ? "Orchestrator" : title(t?.agentType);
  if (!view || !t) return html`<aside class="side" aria-label="Sub-Agent Inspector"><${Grip} /><header class="bar"><h2 tabindex="-1" ref=${heading}>${model.missing.has(id) ? "Not here" : "Loading…"}</h2><span class="space"></span>${close}</header><p class="pad" role=${model.missing.has(id) ? "alert" : undefined}>${model.missing.get(id)}</p></aside>`;
  const task = model.taskOf(id);
  const kids = [t, ...model.below(t.id)];
  const status = t.kind === "main" ? model.statusOf(t) : task ? statusOf(task, kids) : t.status;
  const ms = task ? (running ? now : Date.parse(task.updatedAt)) - Date.parse(task.createdAt) : running ? undefined : t.totalTimeMs;
  const pick = (e) => {
    const list = Object.keys(names);
    const next = list[(list.indexOf(tab) + { ArrowRight: 1, ArrowLeft: list.length - 1 }[e.key]) % list.length];
    if (!next) return;
    e.preventDefault();
    model.go({ tab: next }, { replace: true });
    requestAnimationFrame(() => document.getElementById(`tab-${next}`)?.focus());
  };
  return html`<aside class="side" aria-label="Sub-Agent Inspector" data-thread=${id}>
    <${Grip} />
    <header class="bar"><h2 tabindex="-1" ref=${heading}>${name}</h2><${Status} of=${status} words />${t.reason && html`<span class="dim">(${t.reason})</span>`}<span class="space"></span>
      ${running && t.kind !== "main" && html`<button type="button" class="small stop" onClick=${() => model.stopAgent(t.id)}>Stop</button>`}${close}</header>
    <${Crumbs} model=${model} id=${id} />
    <p class="pad dim small facts">${figures(duration(ms), tokens(t.totalTokens), price(t.totalPrice), t.toolCallCount ? `${t.toolCallCount} tool ${t.toolCallCount === 1 ? "call" : "calls"}` : "")}${view.ui && html` · <a href=${view.ui} target="_blank" rel="noopener">Temporal</a>`}</p>
    <div class="tabs" role="tablist" aria-label="Views" onKeyDown=${pick}>${Object.entries(names).map(([k, n]) => html`<button type="button" role="tab" key=${k} id="tab-${k}" aria-selected=${k === tab} aria-controls="tab-panel" tabindex=${k === tab ? 0 : -1} onClick=${() => model.go({ tab: k }, { replace: true })}>${n}</button>`)}</div>
    <div class="tab-panel" role="tabpanel" id="tab-panel" aria-labelledby="tab-${tab}">
      ${tab === "trace" ? html`<${Trace} key=${`${id} ${model.place.turn}`} model=${model} thread=${id} turn=${model.place.turn} />` : tab === "raw" ? html`<${Raw} key=${id} model=${model} id=${id} version=${view.cursor.split(":")[0]} />` : html`<${Agent} key=${id} model=${model} view=${view} t=${t} running=${running} />`}
    </div>
  </aside>`;
}
