// The trace of a turn: one waterfall of all that it and its sub-agents did and waited
// for. A span opens what was sent and what came. It is read again when the page's stream
// has told of something new in the tree.
import { html, Folded, Markdown, Output, Seen, useEffect, useNow, useRef, useState } from "./ui.js";
import { contentText, duration, figures, price, state, title, tokens } from "./format.js";
import { get } from "./api.js";
import { Go } from "./go.js";
import { summary, waits, waterfall } from "./spans.js";

const fine = new Set(["", "success", "completed", "running", "stop", "tool_calls", "approve", "approve_all", "answered"]);
const names = { model: "Model call", wait: "Waits for the provider", approval: "Waits for approval", question: "Waits for an answer", lost: "Worker lost" };
const path = (...parts) => parts.map(encodeURIComponent).join("/");

const nameOf = (s) => (s.kind === "agent" ? `Agent: ${title(s.name)}` : s.kind === "tool" ? s.name : names[s.kind]);
const words = (s) => (fine.has(s.status ?? "") ? "" : s.status === "lost" ? "lost with its worker" : state(s.status).words.toLowerCase());

// useOnce reads something when it is first shown.
function useOnce(address) {
  const [got, set] = useState({});
  useEffect(() => {
    let gone = false;
    get(address).then((value) => gone || set({ value }), (err) => gone || set({ why: err.message }));
    return () => (gone = true);
  }, [address]);
  return got;
}

const Told = ({ got }) => html`<p class="dim" role=${got.why ? "alert" : "status"}>${got.why ?? "Loading…"}</p>`;

function Said({ message: m }) {
  const calls = m.tool_calls ?? [];
  return html`<div class="sent" data-role=${m.role}><div class="label">${m.role}${m.name && ` ${m.name}`}</div>
    ${m.reasoning && html`<${Folded} title="Thoughts"><${Markdown} text=${m.reasoning} /><//>`}
    ${contentText(m.content) && html`<${Output} value=${contentText(m.content)} />`}
    ${calls.map((c) => html`<${Output} key=${c.id} label=${`calls ${c.function.name}`} value=${c.function.arguments} />`)}</div>`;
}

function ModelCall({ span: s }) {
  const got = useOnce(`/threads/${path(s.threadId)}/turns/${path(s.turnId, "steps", s.step)}`);
  if (!got.value) return html`<${Told} got=${got} />`;
  const v = got.value;
  return html`<p class="dim">${figures(s.name, `attempt ${s.attempt} of ${v.attempts}`, v.failed > 0 && `${v.failed} failed: ${v.code}`, v.finishReason)}</p>
    ${v.error && html`<p class="dim"><${Seen} text=${v.error} /></p>`}
    ${v.reply?.usage && html`<p class="dim">${figures(`${v.reply.usage.promptTokens} tokens read`, v.reply.usage.cachedTokens && `${v.reply.usage.cachedTokens} of them cached`, `${v.reply.usage.completionTokens} written`, price(v.reply.usage.price))}</p>`}
    <${Folded} title=${`Sent: system prompt and ${v.messages.length + (v.omitted ?? 0)} messages`}>
      <${Output} label="System prompt" value=${v.system} />
      ${v.omitted > 0 && html`<p class="dim">${v.omitted} earlier messages</p>`}
      ${v.messages.map((m) => html`<${Said} key=${m.id} message=${m} />`)}
    <//>
    ${v.reply && html`<${Folded} open title="Came"><${Said} message=${v.reply} /><//>`}`;
}

function ToolCall({ span: s, model }) {
  const got = useOnce(`/tool-calls/${path(s.id)}`);
  if (!got.value) return html`<${Told} got=${got} />`;
  const c = got.value;
  return html`<p class="dim">${figures(state(c.status).words, c.errorReason, c.attempts > 1 && `run ${c.attempts} times`, c.durationMs > 0 && duration(c.durationMs))}</p>
    ${s.subAgentThreadId && html`<${Go} model=${model} to=${{ inspect: s.subAgentThreadId, turn: "", tab: "agent" }}>Open the agent<//>`}
    <${Output} label="Input" value=${c.args} />
    ${(c.result || c.error) && html`<${Output} label=${c.error ? "Error" : "Output"} value=${c.error || c.result} whole=${() => get(`/tool-calls/${path(s.id)}/output`)} />`}`;
}

// Inside is what a span opens.
function Inside({ span, model }) {
  const { kind } = span;
  return html`<div class="span-inside">
    ${kind === "model" && html`<${ModelCall} span=${span} />`}
    ${(kind === "tool" || kind === "agent") && html`<${ToolCall} span=${span} model=${model} />`}
    ${kind !== "model" && kind !== "tool" && kind !== "agent" && html`<p><${Seen} text=${span.text || nameOf(span)} /></p>${span.status && html`<p class="dim">${state(span.status).words}</p>`}`}
  </div>`;
}

function Row({ row, chosen, onChoose, onFold, model }) {
  const s = row.span;
  const name = nameOf(s);
  return html`<li class="span ${s.kind} ${row.open ? "open" : ""}" data-span=${s.id} data-depth=${row.depth}>
    <div class="span-line">
      <div class="span-name" style=${{ paddingLeft: `${row.depth * 14}px` }}>
        ${row.inside ? html`<button type="button" class="quiet fold" aria-expanded=${!row.shut} aria-label=${`What ${name} did`} onClick=${() => onFold(s.id)}>${row.shut ? "▸" : "▾"}</button>` : html`<span class="fold"></span>`}
        <button type="button" class="quiet open-span" aria-expanded=${chosen} onClick=${() => onChoose(s.id)}><${Seen} text=${name} /> <span class="dim"><${Seen} text=${s.kind === "model" ? (s.name ?? "") : ((s.subAgentThreadId && model.taskOf(s.subAgentThreadId)?.description) || s.text || "")} /></span></button>
      </div>
      <div class="track" aria-hidden="true"><div class="span-bar ${waits(s) ? "waits" : ""} ${fine.has(s.status ?? "") ? "" : "bad"}" style=${{ left: `${row.left.toFixed(2)}%`, width: `${row.width.toFixed(2)}%` }}></div></div>
      <div class="dim span-time">${s.kind === "lost" ? "" : `${duration(row.ms)}${row.open ? "…" : ""}`} ${words(s)} ${tokens(s.usage?.totalTokens)}</div>
    </div>
    ${chosen && html`<${Inside} span=${s} model=${model} />`}
  </li>`;
}

// newest says how far the page knows the tree of a thread: another value, another trace.
function newest(model, thread) {
  const root = model.threads.get(thread)?.rootThreadId ?? thread;
  let at = model.views.get(thread)?.cursor?.split(":")[0] ?? "";
  for (const t of model.threads.values()) {
    if (t.rootThreadId === root) at += ` ${t.updatedAt}${t.status}`;
  }
  return at;
}

const rest = 400; // ms between two readings

// Trace shows a turn, or a thread's last one. Another thread or turn wants another key.
export function Trace({ model, thread, turn }) {
  const [answer, setAnswer] = useState(null);
  const [why, setWhy] = useState("");
  const [shut, setShut] = useState(new Set());
  const [chosen, choose] = useState("");
  const read = useRef({ at: 0, asked: 0, got: 0, gone: false }).current;
  const version = newest(model, thread);
  const now = useNow(answer?.turn && answer.spans.some((s) => !s.endAt), 500);
  useEffect(() => () => (read.gone = true), []);
  useEffect(() => {
    const load = async () => {
      const n = ++read.asked;
      read.at = Date.now();
      try {
        const a = await get(`/threads/${path(thread)}/spans${turn ? `?turn=${encodeURIComponent(turn)}` : ""}`);
        if (read.gone || n < read.got) return;
        read.got = n;
        setAnswer(a);
        setWhy("");
      } catch (err) {
        if (!read.gone) setWhy(err.message);
      }
    };
    const timer = setTimeout(load, Math.max(0, read.at + rest - Date.now()));
    return () => clearTimeout(timer);
  }, [version]);
  if (!answer) return html`<p class="dim" role=${why ? "alert" : "status"}>${why || "Loading…"}</p>`;
  if (!answer.spans.length) return html`<p class="dim">Nothing took time yet.</p>`;
  const w = waterfall(answer, now, shut);
  const n = summary(answer.spans);
  const fold = (id) => setShut((old) => (old.has(id) ? new Set([...old].filter((x) => x !== id)) : new Set([...old, id])));
  const many = (count, one) => count > 0 && `${count} ${one}${count > 1 ? "s" : ""}`;
  return html`<section class="trace" aria-label="Trace" data-trace=${answer.turn?.id}>
    <p class="dim trace-sum">${figures(duration(w.total), many(n.model, "model call"), many(n.tool, "tool"), many(n.agent, "agent"), tokens(n.tokens), price(n.price))}</p>
    ${n.lost > 0 && html`<p class="lost-sum" role="status">${many(n.lost, "worker")} lost, another went on. Nothing that was stored is repeated.</p>`}
    <div class="axis" aria-hidden="true"><div class="span-name"></div><div class="track">${w.ticks.map((t) => html`<span key=${t.text} style=${{ left: `${t.at.toFixed(2)}%` }}>${t.text}</span>`)}</div><div class="span-time"></div></div>
    <ol class="spans">${w.rows.map((row) => html`<${Row} key=${row.span.id} row=${row} model=${model} chosen=${chosen === row.span.id} onChoose=${(id) => choose(chosen === id ? "" : id)} onFold=${fold} />`)}</ol>
    ${answer.more && html`<p class="dim">There are more spans than are shown.</p>`}
  </section>`;
}
