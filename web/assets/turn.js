// One turn: the message, what it led to, the answer. The chat and the panel draw it.
import { html, Copy, Folded, Growing, Markdown, Output, Seen, Status, When, memo, useLayoutEffect, useState } from "./ui.js";
import { brief, contentImages, contentText, duration, figures, imageAddress, localTimes, outcome, price, state, title, tokens, unfinished } from "./format.js";
import { itemsOf, nameOf } from "./items.js";
import { parsed } from "./thread.js";
import { RollUp, statusOf } from "./agents.js";
import { Diff } from "./dock.js";
import { Go } from "./go.js";

export function Images({ content }) {
  const list = contentImages(content);
  if (!list.length) return null;
  return html`<div class="images">${list.map((url, i) => html`<${Picture} key=${i} url=${url} />`)}</div>`;
}

// Picture shows an image, or says that it is gone.
function Picture({ url }) {
  const [gone, setGone] = useState(false);
  if (!imageAddress(url)) return html`<code>${url}</code>`;
  if (gone) return html`<em>An image that is not kept any more.</em>`;
  return html`<a href=${imageAddress(url)} target="_blank" rel="noopener"><img src=${imageAddress(url)} alt="Image of the message" loading="lazy" onError=${() => setGone(true)} /></a>`;
}

const linkTo = (id) => `${location.origin}${location.pathname}${location.search}#${encodeURIComponent(id)}`;

// Acts are what a person can do with a message: there on hover, on focus and on touch.
function Acts({ m, model, children }) {
  return html`<div class="acts"><${When} at=${m.timestamp} />
    <${Copy} text=${() => contentText(m.content)} what="Copy the message" /><${Copy} text=${() => linkTo(m.id)} what="Copy a link to the message" label="Link" />
    ${children}<button type="button" class="quiet small fork" title="Go on from here in a new conversation; this one stays as it is" onClick=${() => model.fork(m.id)}>Fork from here</button></div>`;
}

const tall = 900; // characters of a message that are shown at once

// Long is a text as it was written; a very long one unfolds.
export function Long({ text }) {
  const [all, setAll] = useState(false);
  if (all || text.length <= tall) return html`<p dir="auto">${text}</p>`;
  return html`<p dir="auto" class="cut">${text.slice(0, tall)}…</p><button type="button" class="quiet small" onClick=${() => setAll(true)}>Show all of it</button>`;
}

function User({ item, model, chat }) {
  const m = item.message;
  const [edited, setEdited] = useState(null);
  const [busy, setBusy] = useState(false);
  const again = async (e) => {
    e.preventDefault();
    setBusy(true);
    if (await model.sendAgain(m, edited, contentImages(m.content))) setEdited(null);
    setBusy(false);
  };
  const keys = (e) => {
    if (e.key === "Escape") setEdited(null);
    else if (e.key === "Enter" && (e.metaKey || e.ctrlKey)) again(e);
    else return;
    e.stopPropagation();
  };
  if (edited !== null) {
    return html`<form class="again" onSubmit=${again} onKeyDown=${keys}><label>Send again, in a new conversation; this one stays as it is
      <textarea rows=${Math.min(12, edited.split("\n").length + 1)} dir="auto" value=${edited} ref=${(e) => e && document.activeElement !== e && !e.dataset.begun && ((e.dataset.begun = "1"), e.focus())} onInput=${(e) => setEdited(e.currentTarget.value)} required></textarea></label>
      <div class="row"><button class="main" disabled=${busy || !edited.trim()}>Send again</button><button type="button" onClick=${() => setEdited(null)}>Back</button></div></form>`;
  }
  return html`<article class="user" aria-label="You" data-message=${m.id} id=${m.id}>
    <div class="bubble">${m.source === "steer" && html`<div class="label">told while it worked</div>`}<${Long} text=${contentText(m.content)} /><${Images} content=${m.content} /></div>
    ${chat && html`<${Acts} m=${m} model=${model}>${m.source !== "steer" && html`<button type="button" class="quiet small edit" title="Edit and send again" onClick=${() => setEdited(contentText(m.content))}>Edit</button>`}<//>`}
  </article>`;
}

function Task({ item, parent }) {
  const m = item.message;
  return html`<article class="entry user" aria-label=${parent ? "Task" : "Message"} data-message=${m.id}><div class="label">${m.source === "steer" ? "Told while it worked" : parent ? "Task" : "Message"} <${When} at=${m.timestamp} /></div><${Markdown} text=${contentText(m.content)} /><${Images} content=${m.content} /></article>`;
}

const System = ({ item }) => html`<${Folded} class="thought system" title="System prompt"><div class="row"><span class="space"></span><${Copy} text=${contentText(item.message.content)} what="Copy the system prompt" /></div><${Markdown} text=${contentText(item.message.content)} /><//>`;

const Report = ({ item }) => html`<${Folded} class="report" title=${html`<span aria-hidden="true">↩ </span>${title(item.message.source.replace(/^(agent:)+/, "").split(":")[0])} reported`}><${Markdown} text=${contentText(item.message.content)} /><//>`;

const Thought = ({ text, now }) => html`<${Folded} class="thought" title=${now ? "Thinking…" : "Thoughts"}><${Markdown} text=${text} /><//>`;

function Assistant({ item, model, chat, earlier, who }) {
  const all = [...earlier, item.message];
  const [at, setAt] = useState(-1);
  const k = at < 0 || at >= all.length ? all.length - 1 : at;
  const m = all[k];
  const text = contentText(m.content);
  if (!text.trim() && !Array.isArray(m.content)) return html`<${Thought} text=${m.reasoning} />`;
  return html`<article class=${chat ? "assistant" : "entry assistant"} aria-label=${who} data-message=${item.message.id} id=${chat ? item.message.id : undefined}>
    ${m.reasoning && html`<${Thought} text=${m.reasoning} />`}
    <${Markdown} text=${text} /><${Images} content=${m.content} />
    ${m.partial && html`<div class="label">cut off</div>`}
    ${chat && html`<div class="foot">${all.length > 1 && html`<span class="versions" role="group" aria-label="Answers"><button type="button" class="quiet small" aria-label="The answer before" disabled=${k === 0} onClick=${() => setAt(k - 1)}>‹</button><span>${k + 1}/${all.length}</span><button type="button" class="quiet small" aria-label="The next answer" disabled=${k === all.length - 1} onClick=${() => setAt(k + 1)}>›</button></span>`}<${Acts} m=${m} model=${model} /></div>`}
  </article>`;
}

// Stream is a reply that is being written. More of its text draws it alone.
function Stream({ item, model, chat, who }) {
  const [, draw] = useState(0);
  useLayoutEffect(() => model.writing(() => draw((n) => n + 1)), []);
  const stream = model.streamOf(item.key) ?? item.stream;
  return html`<article class="${chat ? "assistant" : "entry assistant"} stream" aria-label="${who}, writing" aria-busy="true">
    ${stream.again && html`<div class="label" role="status">The model's answer broke off: it answers again.</div>`}
    ${stream.reasoning && html`<${Thought} text=${stream.reasoning} now />`}
    ${stream.text ? html`<${Growing} key=${stream.attempt} text=${stream.text} />` : html`<span class="dim">…</span>`}
  </article>`;
}

function Question({ item, model }) {
  const { ask } = item;
  const settled = ask.state !== "open";
  return html`<div class="qa ${ask.state}" role="group" aria-label="Question" data-question=${ask.questionId}>
    <div class="asks"><span class="label"><span aria-hidden="true">? </span><b><${Seen} text=${title(ask.agent)} /></b> asked${ask.task && html` about <${Seen} text=${brief(nameOf({ type: "agent", instruction: ask.task, name: "", description: model.taskOf(ask.threadId)?.description }), 80)} />`} <${When} at=${ask.at} /></span><${Markdown} text=${ask.text} decided /></div>
    ${settled ? html`<div class="bubble answer"><div class="label">${ask.state === "answered" ? html`answer${ask.answeredBy && ask.answeredBy !== model.me?.userId ? html` of <${Seen} text=${ask.answeredBy} />` : ""} <${When} at=${ask.answeredAt} />` : "not answered: its turn ended"}</div>${ask.answer && html`<p dir="auto"><${Seen} text=${ask.answer} /></p>`}</div>`
      : html`<div class="label waiting">waits for your answer</div>`}
  </div>`;
}

// Call is a tool that was called, or an agent that was set to work.
function Call({ item, model, chat }) {
  const { call } = item;
  const child = call.subAgentThreadId;
  const status = outcome(call);
  const done = !unfinished(call.status);
  const whole = () => model.act((a) => a.output(call.id)).then((t) => t ?? "");
  if (child) {
    const thread = model.threads.get(child);
    const now = item.task ? statusOf(item.task, thread ? [thread, ...model.below(child)] : []) : (thread?.status ?? status);
    const what = item.task ? nameOf(item.task) : (parsed(call.args).description ?? parsed(call.args).task ?? "");
    return html`<div class="call to-agent"><${Go} model=${model} to=${chat ? { thread: chat, inspect: child, tab: "", turn: "" } : { inspect: child, tab: "", turn: "" }} class="into"><${Status} of=${now} /><span aria-hidden="true"> ⇢ </span><b>${title(child.split(":")[1])}</b> <span class="dim"><${Seen} text=${brief(what, 90)} /></span>${call.gate === "edited" && html` <span class="tag">edited by a person</span>`}<span class="unseen">, open</span><//></div>`;
  }
  const label = call.status === "success" ? "Output" : status === "edited" ? "What you told it instead" : status === "denied" ? "Denied: what it was told" : `Outcome: ${call.errorReason || call.status}`;
  const args = parsed(call.args);
  return html`<div class="call"><${Folded} class="tool ${status}" data-call=${call.id} title=${html`<${Status} of=${status} /> <b><${Seen} text=${call.toolName} /></b> <span class="dim"><${Seen} text=${brief(call.args)} /></span> ${call.gate === "edited" && html`<span class="tag">edited by a person</span> `}<span class="dim took">${status === "edited" || status === "denied" ? state(status).words.toLowerCase() : call.durationMs ? duration(call.durationMs) : ""}</span>`}>
    ${call.toolName === "file_edit" || call.toolName === "file_write" ? html`<${Diff} tool=${call.toolName} args=${args} /><${Output} label="Input" value=${call.args ?? ""} />` : html`<${Output} label="Input" value=${call.args ?? ""} />`}
    ${done && html`<${Output} key=${call.result ?? ""} label=${label} value=${(call.status === "success" ? undefined : localTimes(call.error)) || call.result || ""} cut=${call.whole === false || (call.result ?? call.error) === undefined} whole=${whole} />`}
  <//></div>`;
}

function End({ item, model, last, chat }) {
  const { type, data, turnId } = item.end;
  const failed = type === "error";
  const cancelled = data?.code === "cancelled";
  return html`<footer class="end ${failed ? (cancelled ? "cancelled" : "failed") : ""}" data-turn=${turnId}>
    ${failed ? html`<span role="alert"><span aria-hidden="true">${state(cancelled ? "cancelled" : "failed").icon} </span>${localTimes(data?.message) ?? data?.code}</span>` : html`<span>${figures(duration(data?.responseTimeMs), tokens(data?.usage?.totalTokens), price(data?.usage?.price))}</span>`}
    ${item.cut && html`<span class="label" role="status">${item.cut}</span>`}
    ${chat && html`<${Go} model=${model} to=${{ inspect: chat, tab: "trace", turn: turnId }}>Trace<//>`}
    ${last && chat && html`<button type="button" class=${failed ? "small" : "quiet small"} onClick=${() => model.retry()}>Retry</button>`}
  </footer>`;
}

const Note = ({ item }) => html`<p class="note dim small" role="note"><span aria-hidden="true">⟳ </span>${item.text}</p>`;

const views = { note: Note, system: System, user: User, report: Report, assistant: Assistant, stream: Stream, question: Question, call: Call, end: End };
const many = 6; // calls in a row that are folded once they are done

// rows puts long runs of finished calls under one title.
function rows(items) {
  const out = [];
  for (const i of items) {
    const run = out.at(-1);
    if (i.kind === "call" && run?.kind === "calls") run.calls.push(i);
    else out.push(i.kind === "call" ? { kind: "calls", key: `calls:${i.key}`, calls: [i] } : i);
  }
  return out;
}

// Turn draws a turn. chat is the conversation's id in the chat, "" in the panel; kids are
// the threads that it shows, so that it is drawn again when they change; earlier are the
// answers that its own replaces, parent is who gave the thread its task, replaced says that its answer is shown by a later turn.
export const Turn = memo(
  function Turn({ turn, model, chat, last, who, waits, earlier, replaced, parent }) {
    const items = itemsOf(turn);
    const answer = items.findLast((i) => i.kind === "assistant" && !i.message.tool_calls?.length && !i.message.partial)?.key;
    const draw = (i) => {
      if (i.kind === "system" && chat) return null;
      if (i.kind === "rollup") return chat ? html`<${RollUp} key=${i.key} item=${i} model=${model} chat=${chat} waits=${waits} />` : null;
      // An answer that another one replaces stands with that one, and so does its end unless calls led to it.
      if (replaced && (i.key === answer || (i.kind === "end" && i.end.type === "done" && !turn.calls.size))) return null;
      const told = i.kind === "user" || (i.kind === "report" && i.message.source === `agent:${parent}`);
      const view = told && !chat ? Task : views[i.kind];
      return html`<${view} key=${i.key} item=${i} model=${model} chat=${chat} who=${who} parent=${parent} last=${last} earlier=${i.key === answer ? earlier : []} />`;
    };
    return html`<div class="turn" data-turn-id=${turn.id}>${rows(items).map((i) => {
      if (i.kind !== "calls") return draw(i);
      const quiet = i.calls.length > many && i.calls.every((c) => !unfinished(c.call.status));
      if (!quiet) return html`<div class="calls" key=${i.key}>${i.calls.map(draw)}</div>`;
      const failed = i.calls.filter((c) => c.call.status === "failed").length;
      return html`<${Folded} key=${i.key} class="calls" title=${html`${i.calls.length} calls <span class="dim">${[...new Set(i.calls.map((c) => c.call.toolName))].slice(0, 6).join(", ")}${failed ? `, ${failed} failed` : ""}</span>`}>${i.calls.map(draw)}<//>`;
    })}</div>`;
  },
  (a, b) => a === b || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((x, i) => x === b[i])),
);
