// The timeline of a turn: its model calls, tools and sub-agents as bars, like a trace.
import { html, useEffect, useState } from "./ui.js";
import { brief, duration, figures, state, tokens, price, title } from "./format.js";
import { spans } from "./thread.js";
import { Go } from "./sidebar.js";

export function Timeline({ model }) {
  const { thread, turn } = model.place;
  const [events, setEvents] = useState(null);
  const view = model.views.get(thread);
  const ended = view?.ends.has(turn);
  useEffect(() => {
    let gone = false;
    const load = () => model.turnEvents(thread, turn).then((e) => gone || setEvents(e), (err) => model.notice(err));
    load();
    const timer = ended ? 0 : setInterval(load, 2000);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, [thread, turn, ended]);
  const list = spans(events ?? []);
  const last = events?.at(-1);
  const total = Math.max(1, ...list.map((s) => s.to ?? 0), events?.length ? Date.parse(last.at) - Date.parse(events[0].at) : 0);
  const percent = (ms) => `${Math.min(100, (100 * ms) / total).toFixed(2)}%`;
  return html`<aside class="side" aria-label="Timeline of a turn" data-timeline=${turn}>
    <header class="bar"><h2>Timeline</h2><span class="dim">${figures(duration(total), tokens(last?.data?.usage?.totalTokens), price(last?.data?.usage?.price))}</span><span class="space"></span>
      <button type="button" class="quiet" onClick=${() => model.go({ turn: "" })} aria-label="Close the timeline">✕</button></header>
    <div class="log" tabindex="0" role="region" aria-label="Spans">
    ${!events && html`<p class="pad dim">Loading…</p>`}
    ${events && !list.length && html`<p class="pad dim">Nothing is recorded of this turn.</p>`}
    <ol class="spans">${list.map((s, i) => html`<li key=${i} class=${s.kind}>
      <div class="span-name">${s.threadId ? html`<${Go} model=${model} to=${{ inspect: s.threadId, turn: "" }}>Agent: ${title(s.label)}<//>` : s.label} <span class="dim">${s.kind === "tool" ? brief(s.args, 50) : ""}${s.usage ? tokens(s.usage.totalTokens) : ""}</span></div>
      <div class="track"><div class="span-bar ${s.status ?? ""}" style=${{ marginLeft: percent(s.from), width: s.to === undefined ? percent(total - s.from) : percent(Math.max(s.to - s.from, total / 300)) }}></div></div>
      <div class="dim span-time">${s.to === undefined ? "running" : duration(s.to - s.from)}${s.status && s.status !== "success" && s.status !== "completed" && s.status !== "running" ? `, ${state(s.status).words.toLowerCase()}` : ""}</div>
    </li>`)}</ol></div>
  </aside>`;
}
