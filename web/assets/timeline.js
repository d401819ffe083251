// The timeline of a turn: its model calls, tools, sub-agents and what people were
// asked, as bars, like a trace.
import { html, Seen, useEffect, useNow, useState } from "./ui.js";
import { duration, figures, price, state, title, tokens } from "./format.js";
import { api } from "./api.js";
import { Go } from "./sidebar.js";

const fine = new Set(["", "success", "completed", "running", "stop", "tool_calls", "approve", "approve_all", "answered"]);

function Bar({ span, begun, total, now, model }) {
  const from = Date.parse(span.startAt) - begun;
  const ms = span.endAt ? span.durationMs : now - Date.parse(span.startAt);
  const percent = (n) => `${Math.min(100, (100 * n) / total).toFixed(2)}%`;
  const name = span.subAgentThreadId ? span.subAgentThreadId.split(":")[1] : span.name || span.kind;
  return html`<li class=${span.kind}>
    <div class="span-name">${span.subAgentThreadId ? html`<${Go} model=${model} to=${{ inspect: span.subAgentThreadId, turn: "" }}>Agent: ${title(name)}<//>` : html`<${Seen} text=${name} />`} <span class="dim">${figures(tokens(span.usage?.totalTokens), price(span.usage?.price))}</span></div>
    <div class="track"><div class="span-bar ${span.status ?? ""}" style=${{ marginLeft: percent(from), width: percent(Math.max(ms, total / 300)) }}></div></div>
    <div class="dim span-time">${duration(ms)}${span.endAt ? "" : "…"}${fine.has(span.status ?? "") ? "" : `, ${state(span.status).words.toLowerCase()}`}</div>
  </li>`;
}

export function Timeline({ model }) {
  const { thread, turn } = model.place;
  const [line, setLine] = useState(null);
  const [why, setWhy] = useState("");
  const open = line?.turn.state !== "closed";
  const now = useNow(open, 500);
  const ended = Boolean(model.views.get(thread)?.ends.has(turn));
  useEffect(() => {
    let gone = false;
    const load = () => api.timeline(thread, turn).then((l) => gone || setLine(l), (err) => gone || setWhy(err.message));
    load();
    const timer = ended ? 0 : setInterval(load, 1000);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, [thread, turn, ended]);
  const begun = line ? Date.parse(line.turn.openedAt) : 0;
  const end = line?.turn.closedAt ? Date.parse(line.turn.closedAt) : now;
  const total = line ? Math.max(1, end - begun, ...line.spans.map((s) => (s.endAt ? Date.parse(s.endAt) : now) - begun)) : 1;
  return html`<aside class="side" aria-label="Timeline of a turn" data-timeline=${turn}>
    <header class="bar"><h2>Timeline</h2><span class="dim">${line && figures(duration(end - begun), tokens(line.turn.usage.totalTokens), price(line.turn.usage.price), `${line.turn.steps} model calls`)}</span><span class="space"></span>
      <button type="button" class="quiet" onClick=${() => model.go({ turn: "" })} aria-label="Close the timeline">✕</button></header>
    <div class="log" tabindex="0" role="region" aria-label="Spans">
      ${!line && html`<p class="dim" role=${why ? "alert" : undefined}>${why || "Loading…"}</p>`}
      ${line && !line.spans.length && html`<p class="dim">Nothing took time yet.</p>`}
      ${line?.spans.length > 0 && html`<ol class="spans">${line.spans.map((s, i) => html`<${Bar} key=${s.id ?? i} span=${s} begun=${begun} total=${total} now=${now} model=${model} />`)}</ol>`}
    </div>
  </aside>`;
}
