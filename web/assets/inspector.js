// The Sub-Agent Inspector: a child's whole thread beside the chat. It only reads.
import { html, Folded, Markdown, Output, Seen, Status, useEffect, useLayoutEffect, useNow, useRef, useState } from "./ui.js";
import { brief, contentText, duration, figures, price, title, tokens, unfinished } from "./format.js";
import { transcript } from "./thread.js";
import { Images, Stream, Working } from "./chat.js";
import { Go } from "./sidebar.js";

function Call({ call, model }) {
  const done = !unfinished(call.status);
  const child = call.subAgentThreadId;
  return html`<div class="call">
    <${Folded} class="tool" title=${html`<${Status} of=${call.status} /> <b><${Seen} text=${call.toolName} /></b> <span class="dim"><${Seen} text=${brief(call.args)} /></span> <span class="dim">${call.durationMs ? duration(call.durationMs) : ""}</span>`}>
      <${Output} label="Input" value=${call.args ?? ""} />
      ${done && html`<${Output} label=${call.status === "success" ? "Output" : `Outcome: ${call.errorReason || call.status}`} value=${call.result ?? call.error ?? ""} whole=${() => model.act((a) => a.output(call.id)).then((t) => t ?? "")} />`}
    <//>
    ${child && html`<${Go} model=${model} to=${{ inspect: child, turn: "" }} class="into">Open ${title(child.split(":")[1])}<//>`}
  </div>`;
}

function Entry({ item, model }) {
  if (item.kind === "stream") return html`<${Stream} stream=${item.stream} />`;
  const m = item.message;
  const what = { system: "System prompt", user: m.source === "steer" ? "Told while it worked" : "Task", assistant: "Agent" }[m.role] ?? m.role;
  if (m.role === "system") return html`<${Folded} class="thought" title=${what}><${Markdown} text=${contentText(m.content)} /><//>`;
  return html`<article class="entry ${m.role}" aria-label=${what} data-message=${m.id}>
    ${m.role === "user" && html`<div class="label">${what}</div>`}
    ${m.reasoning && html`<${Folded} class="thought" title="Thoughts"><${Markdown} text=${m.reasoning} /><//>`}
    ${contentText(m.content) && html`<${Markdown} text=${contentText(m.content)} />`}<${Images} content=${m.content} />
    ${m.partial && html`<div class="label">cut off</div>`}
    ${item.calls.map((c) => html`<${Call} key=${c.id} call=${c} model=${model} />`)}
  </article>`;
}

function Children({ model, of }) {
  const list = [...model.threads.values()].filter((t) => t.parentThreadId === of && t.kind === "subagent").sort((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
  if (!list.length) return null;
  return html`<ul class="tasks">${list.map((t) => html`<li key=${t.id}><${Go} model=${model} to=${{ inspect: t.id, turn: "" }} class="task"><${Status} of=${t.status} /> ${title(t.agentType)} <span class="dim">${figures(duration(t.totalTimeMs), tokens(t.totalTokens))}</span><//><${Children} model=${model} of=${t.id} /></li>`)}</ul>`;
}

export function Inspector({ model }) {
  const id = model.place.inspect;
  const view = model.views.get(id);
  const t = model.threads.get(id) ?? view?.thread;
  const heading = useRef(null);
  const box = useRef(null);
  const bottom = useRef(true);
  useEffect(() => heading.current?.focus(), [id]);
  useLayoutEffect(() => {
    if (box.current && bottom.current && t && unfinished(t.status)) box.current.scrollTop = box.current.scrollHeight;
  });
  const running = Boolean(t && unfinished(t.status));
  const now = useNow(running);
  const close = html`<button type="button" class="quiet" onClick=${() => model.go({ inspect: "" })} aria-label="Close the inspector">✕</button>`;
  if (!view) return html`<aside class="side" aria-label="Sub-Agent Inspector"><header class="bar"><h2 tabindex="-1" ref=${heading}>${model.missing.has(id) ? "Not here" : "Loading…"}</h2><span class="space"></span>${close}</header><p class="pad">${model.missing.get(id)}</p></aside>`;
  const path = model.way(id);
  const scrolled = (e) => {
    const b = e.currentTarget;
    bottom.current = b.scrollHeight - b.scrollTop - b.clientHeight < 60;
    if (b.scrollTop < 200) model.earlier(id);
  };
  return html`<aside class="side" aria-label="Sub-Agent Inspector" data-thread=${id}>
    <header class="bar"><h2 tabindex="-1" ref=${heading}>${title(t.agentType)}</h2><${Status} of=${t.status} words />${t.reason && html`<span class="dim">(${t.reason})</span>`}<span class="space"></span>${close}</header>
    <nav class="crumbs" aria-label="Way from the chat"><ol>${path.map((p, i) => html`<li key=${p.id}>${p.kind === "main" ? html`<${Go} model=${model} to=${{ inspect: "", turn: "" }}>Chat<//>` : i === path.length - 1 ? html`<span aria-current="location">${title(p.agentType)}</span>` : html`<${Go} model=${model} to=${{ inspect: p.id, turn: "" }}>${title(p.agentType)}<//>`}</li>`)}</ol></nav>
    <p class="pad dim facts">${figures(duration(running && t.openTurnId ? now - Date.parse(t.createdAt) : t.totalTimeMs), tokens(t.totalTokens), price(t.totalPrice), t.toolCallCount ? `${t.toolCallCount} tool ${t.toolCallCount === 1 ? "call" : "calls"}` : "")}
      ${view.ui && html` · <a href=${view.ui} target="_blank" rel="noopener">Temporal</a>`}<br /><code>${id}</code></p>
    <div class="pad"><${Children} model=${model} of=${id} /></div>
    <div class="log" ref=${box} onScroll=${scrolled} tabindex="0" role="region" aria-label="Thread of ${t.agentType}">
      ${view.firstSeq > 1 && html`<button type="button" class="quiet earlier" onClick=${() => model.earlier(id)}>Earlier messages</button>`}
      ${transcript(view).map((i) => html`<${Entry} key=${i.key} item=${i} model=${model} />`)}
      ${running && html`<${Working} view=${view} />`}
    </div>
    <footer class="dim pad">Read only: its parent talks to it.</footer>
  </aside>`;
}
