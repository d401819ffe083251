// The agents that a message has set to work, as a table: who, what, what it does now, how
// long, how much; and what a person can do about one.
import { html, Seen, Status, useNow, useState } from "./ui.js";
import { brief, count, duration, figures, needsPerson, price, state, title, took, unfinished, waitText } from "./format.js";
import { nameOf } from "./items.js";
import { Go } from "./go.js";

// statusOf is what an agent with all below it does: it waits for a person as soon as one
// of them does.
export function statusOf(task, kids) {
  if (!unfinished(task.status)) return task.status;
  const own = kids.find((t) => t.id === task.subAgentId);
  if (!own) return task.status;
  return needsPerson(own.status) ? own.status : (kids.find((t) => needsPerson(t.status))?.status ?? own.status);
}

function Agent({ model, task, action, chat, waits }) {
  const child = model.threads.get(task.subAgentId);
  const tree = child ? [child, ...model.below(child.id)] : [];
  const status = statusOf(task, tree);
  const working = unfinished(status);
  const now = useNow(working);
  const wait = working && waits.get(task.subAgentId);
  const [busy, setBusy] = useState(false);
  const act = async (f) => {
    setBusy(true);
    await f();
    setBusy(false);
  };
  const name = title(task.name.replace(/^agent:/, ""));
  const why = status === "failed" || status === "cancelled" ? task.error || child?.reason || task.reason : "";
  return html`<li class="agent ${status}" data-task=${task.id}>
    <${Go} model=${model} to=${{ thread: chat, inspect: task.subAgentId, tab: "", turn: "" }} class="task-block" aria-current=${model.place.inspect === task.subAgentId ? "true" : undefined}>
      <${Status} of=${status} />
      <span class="who-what"><span class="task-name">Agent: <${Seen} text=${name} /> - ${state(status).words}</span>
        <span class="brief" dir="auto"><${Seen} text=${brief(nameOf(task), 140)} /></span></span>
      <span class="figures"><span class="took">${duration(took(task, now))}</span><span>${child?.totalTokens ? `${count(child.totalTokens)}` : ""}<span>${child?.totalTokens ? " tokens" : ""}</span></span><span>${price(child?.totalPrice)}</span></span>
      ${working && action && html`<span class="now" title="What it did last"><span aria-hidden="true">↳ </span><${Seen} text=${action.toolName} /> <${Seen} text=${brief(action.args, 90)} />${action.status === "running" ? html` <span class="dim">(${duration(Math.max(0, now - Date.parse(action.at)))})</span>` : ""}</span>`}
      ${wait && Date.parse(wait.until) > now && html`<span class="dim wait" data-wait=${wait.threadId}><span aria-hidden="true">◔ </span>${waitText(wait, now)}</span>`}
      ${why && html`<span class="why"><${Seen} text=${brief(why, 300)} /></span>`}
    <//>
    <span class="agent-acts">${working && child && html`<button type="button" class="small stop" disabled=${busy} aria-label=${`Stop ${name}`} onClick=${() => act(() => model.stopAgent(child.id))}>Stop</button>`}
      ${status === "failed" && child && html`<button type="button" class="small" disabled=${busy} aria-label=${`Retry ${name}`} title="Ask the orchestrator to go on with it" onClick=${() => act(() => model.retryAgent(task))}>Retry</button>`}</span>
  </li>`;
}

const most = 8; // agents that are listed without being asked for

// RollUp is one line for all that a message led to, and its agents.
export function RollUp({ item, model, chat, waits }) {
  const [open, setOpen] = useState(true);
  const [all, setAll] = useState(false);
  const kids = item.agents.flatMap(({ task }) => {
    const t = model.threads.get(task.subAgentId);
    return t ? [t, ...model.below(t.id)] : [];
  });
  const first = item.agents[0]?.task;
  const agents = Math.max(kids.length, item.agents.length);
  const tools = item.tools + kids.reduce((n, t) => n + t.toolCallCount, 0) - kids.filter((t) => model.threads.get(t.parentThreadId)?.kind === "subagent").length;
  const plural = (n, one) => (n ? `${n} ${one}${n === 1 ? "" : "s"}` : "");
  const cost = item.end?.data?.usage?.price ?? kids.reduce((n, t) => n + t.totalPrice, 0);
  const working = item.open || item.agents.some(({ task }) => unfinished(task.status));
  const now = useNow(working);
  const since = item.began;
  const ms = item.end && !working ? item.end.data?.responseTimeMs : since ? now - Date.parse(since) : undefined;
  const line = figures(plural(agents, "agent"), plural(Math.max(tools, item.tools), "tool"), duration(ms), price(cost));
  const waitsFor = item.agents.filter(({ task }) => needsPerson(statusOf(task, kids.filter((t) => t.id === task.subAgentId || below(model, t, task.subAgentId))))).length;
  if (!first) return html`<p class="rollup plain dim">${line}${item.failed ? html` · <span class="bad-text">${item.failed} failed</span>` : ""}</p>`;
  const shown = all || item.agents.length <= most ? item.agents : item.agents.filter(({ task }, i) => i < most || unfinished(task.status) || task.status === "failed");
  const hidden = item.agents.length - shown.length;
  return html`<div class="rollup" role="group" aria-label="Agents">
    <button type="button" class="quiet roll" aria-expanded=${open} onClick=${() => setOpen(!open)}><span class="twist" aria-hidden="true">${open ? "▾" : "▸"}</span> ${line}${waitsFor ? html` <span class="needs">${waitsFor === 1 ? "1 needs you" : `${waitsFor} need you`}</span>` : ""}</button>
    ${open && html`<ul class="agents">${shown.map((a) => html`<${Agent} key=${a.task.id} model=${model} task=${a.task} action=${a.action} chat=${chat} waits=${waits} />`)}
      ${hidden > 0 && html`<li><button type="button" class="quiet" onClick=${() => setAll(true)}>${hidden} more agents</button></li>`}</ul>`}
  </div>`;
}

function below(model, t, id) {
  for (let p = t, n = 0; p && n < 32; p = model.threads.get(p.parentThreadId), n++) if (p.id === id) return true;
  return false;
}

