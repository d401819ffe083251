// The chat: the person and the orchestrator, and under each message the tasks it led to.
import { html, Folded, Markdown, Output, Seen, Status, useEffect, useLayoutEffect, useNow, useRef, useState } from "./ui.js";
import { brief, contentImages, contentText, duration, figures, imageAddress, localTimes, price, state, title, tokens, unfinished, waitText } from "./format.js";
import { chatItems, waiting } from "./thread.js";
import { Cards } from "./cards.js";
import { Composer } from "./composer.js";
import { Go } from "./sidebar.js";

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
  return html`<img src=${imageAddress(url)} alt="Image of the message" onError=${() => setGone(true)} />`;
}

// Wait says that a model call is made later, until then.
function Wait({ wait, now, who }) {
  return html`<p class="dim wait" role="status" data-wait=${wait.threadId}><span aria-hidden="true">◔ </span>${who && `${title(wait.agent)}: `}${waitText(wait, now)}</p>`;
}

// Working says that a thread works, or what it and those below it wait for. others are
// the threads whose waits are not shown elsewhere.
export function Working({ view, works, others = () => true }) {
  const now = useNow(view.waits.size > 0);
  const id = view.thread.id;
  const waits = waiting(view, now).filter((w) => w.threadId === id || others(w.threadId));
  const own = waits.some((w) => w.threadId === id);
  return html`${works && !own && html`<p class="dim working" role="status"><span class="pulse" aria-hidden="true">◐</span> working</p>`}
    ${waits.map((w) => html`<${Wait} key=${w.threadId} wait=${w} now=${now} who=${w.threadId !== id} />`)}`;
}

function AgentTask({ model, task, chat, waits }) {
  const child = model.threads.get(task.subAgentId);
  const status = child && unfinished(task.status) ? child.status : task.status;
  const running = unfinished(status);
  const wait = running && waits.get(task.subAgentId);
  const now = useNow(running);
  const name = title(task.name.replace(/^agent:/, ""));
  const ms = running ? now - Date.parse(task.createdAt) : (task.durationMs ?? child?.totalTimeMs);
  return html`<${Go} model=${model} to=${{ thread: chat, inspect: task.subAgentId, turn: "" }} class="task-block ${status}" data-task=${task.id} aria-current=${model.place.inspect === task.subAgentId ? "true" : undefined}>
    <${Status} of=${status} /><span class="task-name">Agent: <${Seen} text=${name} /> - ${state(status).words}</span>
    <span class="dim">${figures(duration(ms), tokens(child?.totalTokens), price(child?.totalPrice))}</span>
    <span class="dim brief"><${Seen} text=${brief(task.instruction, 100)} /></span>
    ${wait && Date.parse(wait.until) > now && html`<span class="dim wait" data-wait=${wait.threadId}><span aria-hidden="true">◔ </span>${waitText(wait, now)}</span>`}
  <//>`;
}

function ToolTask({ model, task }) {
  const name = task.name.replace(/^tool:/, "");
  const call = task.id.replace(/^task_/, "call_");
  return html`<${Folded} class="tool" title=${html`<${Status} of=${task.status} /> <b><${Seen} text=${name} /></b> <span class="dim"><${Seen} text=${brief(task.instruction)} /></span>`}>
    <${Output} label="Input" value=${task.instruction} />
    ${!unfinished(task.status) && html`<${Output} label=${task.error ? "Error" : "Output"} value=${localTimes(task.error) || task.result} whole=${() => model.act((a) => a.output(call)).then((t) => t ?? "")} />`}
  <//>`;
}

function User({ item, model }) {
  const m = item.message;
  return html`<article class="user" aria-label="You" data-message=${m.id}>
    <div class="bubble">${m.source === "steer" && html`<div class="label">told while it worked</div>`}<p>${contentText(m.content)}</p><${Images} content=${m.content} /></div>
    <${Fork} model=${model} at=${m.id} />
  </article>`;
}

const Fork = ({ model, at }) => html`<button type="button" class="quiet fork" title="Go on from here in a new conversation; this one stays as it is" onClick=${() => model.fork(at)}>Fork from here</button>`;

function Report({ item }) {
  return html`<${Folded} class="report" title=${html`<span aria-hidden="true">↩ </span>${title(item.message.source.replace(/^(agent:)+/, "").split(":")[0])} reported`}><${Markdown} text=${contentText(item.message.content)} /><//>`;
}

function Assistant({ item, model }) {
  const m = item.message;
  return html`<article class="assistant ${m.supersededBy ? "superseded" : ""}" aria-label="Orchestrator" data-message=${m.id}>
    ${m.reasoning && html`<${Folded} class="thought" title="Thoughts"><${Markdown} text=${m.reasoning} /><//>`}
    <${Markdown} text=${contentText(m.content)} />
    ${(m.partial || m.supersededBy) && html`<div class="label">${m.supersededBy ? "replaced by a retry" : "cut off"}</div>`}
    <${Fork} model=${model} at=${m.id} />
  </article>`;
}

export function Stream({ stream }) {
  return html`<article class="assistant stream" aria-label="Orchestrator, writing" aria-busy="true">
    ${stream.again && html`<div class="label" role="status">The model's answer broke off: it answers again.</div>`}
    ${stream.reasoning && html`<${Folded} class="thought" title="Thinking…"><${Markdown} text=${stream.reasoning} /><//>`}
    ${stream.text ? html`<${Markdown} text=${stream.text} />` : html`<span class="dim">…</span>`}
  </article>`;
}

function End({ item, model, last }) {
  const { type, data, turnId } = item.end;
  const failed = type === "error";
  return html`<footer class="end ${failed ? "failed" : ""}" data-turn=${turnId}>
    ${failed ? html`<span role="alert">${state(data?.code === "cancelled" ? "cancelled" : "failed").icon} ${localTimes(data?.message) ?? data?.code}</span>` : html`<span>${figures(duration(data?.responseTimeMs), tokens(data?.usage?.totalTokens), price(data?.usage?.price))}</span>`}
    ${item.cut && html`<span class="label" role="status">${item.cut}</span>`}
    <${Go} model=${model} to=${{ turn: turnId, inspect: "" }}>Trace<//>
    ${last && html`<button type="button" class="quiet" onClick=${() => model.retry()}>Retry</button>`}
  </footer>`;
}

const views = { user: User, report: Report, assistant: Assistant, stream: Stream, end: End };

// useBottom keeps the newest in sight while a person is at the bottom, and what they
// read in place while earlier messages come.
function useBottom(view, earlier) {
  const box = useRef(null);
  const at = useRef({ bottom: true, top: 0, height: 0, first: 0 });
  const settle = () => {
    const b = box.current;
    if (at.current.bottom) b.scrollTop = b.scrollHeight;
    if (at.current.first > 1 && b.scrollHeight <= b.clientHeight) earlier();
    at.current.height = b.scrollHeight;
    at.current.top = b.scrollTop;
  };
  useLayoutEffect(() => {
    const b = box.current;
    if (at.current.first && view.firstSeq < at.current.first && !at.current.bottom) b.scrollTop += b.scrollHeight - at.current.height;
    at.current.first = view.firstSeq;
    settle();
  });
  useEffect(() => {
    // What is in it, and its window, also change by themselves.
    const seen = new ResizeObserver(settle);
    for (const e of [box.current, ...box.current.children]) seen.observe(e);
    return () => seen.disconnect();
  }, []);
  const scrolled = () => {
    const b = box.current;
    if (b.scrollHeight - b.scrollTop - b.clientHeight < 60) at.current.bottom = true;
    else if (b.scrollTop < at.current.top - 1) at.current.bottom = false;
    at.current.top = b.scrollTop;
    if (b.scrollTop < 200 && !at.current.bottom) earlier();
  };
  return [box, scrolled];
}

// demoModel is the name of the scripted model.
const demoModel = "spool-script";

// Demo says that no real model answers, or that none is to be expected.
const Demo = ({ expected }) => html`<p class="demo" role="note"><b>Demo model.</b> ${expected ? "No model is configured for this server: a worker with the same settings lets a scripted demo model answer." : "A scripted demo model answers, as no model is configured for the worker."} Set <code>OPENAI_API_KEY</code> or <code>OPENAI_BASE_URL</code> (and <code>SPOOL_MODEL</code>) in the worker's environment and start it again for a real one.</p>`;

export function Chat({ model }) {
  const id = model.place.thread;
  const view = model.views.get(id);
  if (!id) {
    return html`<main class="chat" id="main"><div class="welcome"><h1>Spool</h1><p>Agent conversations that cannot be lost. Write a message to begin one.</p>${model.me.demo && !model.threads.size && html`<${Demo} expected />`}</div><${Composer} key="new" model=${model} /></main>`;
  }
  if (!view) {
    const why = model.missing.get(id);
    return html`<main class="chat" id="main"><div class="welcome"><h1>${why ? "Not here" : "Loading…"}</h1>${why && html`<p role="alert">${why}</p>`}</div></main>`;
  }
  if (view.thread.kind !== "main") {
    model.go({ thread: view.thread.rootThreadId, inspect: id });
    return null;
  }
  return html`<${Conversation} key=${id} model=${model} view=${view} />`;
}

function Conversation({ model, view }) {
  const t = model.threads.get(view.thread.id) ?? view.thread;
  const [box, scrolled] = useBottom(view, () => model.earlier(t.id));
  const items = chatItems(view);
  const lastEnd = items.findLast((i) => i.kind === "end")?.key;
  const working = Boolean(t.openTurnId);
  const asking = model.approvals.length + model.questions.length;
  useEffect(() => {
    document.title = `${asking ? `(${asking}) ` : ""}${t.topic || t.id} · Spool`;
  }, [asking, t.topic, t.id]);
  return html`<main class="chat" id="main">
    <header class="bar"><h1 title=${t.id}><bdi>${t.topic || t.id}</bdi></h1><${Status} of=${t.status} words />
      <span class="dim">${figures(tokens(t.totalTokens), price(t.totalPrice))}</span>
      ${view.ui && html`<a href=${view.ui} target="_blank" rel="noopener">Temporal</a>`}</header>
    ${view.model === demoModel && html`<${Demo} />`}
    ${view.trouble && html`<p class="trouble" role="alert">${view.trouble}</p>`}
    <div class="log" ref=${box} onScroll=${scrolled} tabindex="0" role="region" aria-label="Messages">
      ${view.firstSeq > 1 && html`<button type="button" class="quiet earlier" onClick=${() => model.earlier(t.id)}>Earlier messages</button>`}
      <div role="log" aria-live="polite" aria-relevant="additions">
      ${items.map((i) => (i.kind === "task"
        ? i.task.type === "agent" ? html`<${AgentTask} key=${i.key} model=${model} task=${i.task} chat=${t.id} waits=${view.waits} />` : html`<${ToolTask} key=${i.key} model=${model} task=${i.task} />`
        : html`<${views[i.kind]} key=${i.key} item=${i} stream=${i.stream} model=${model} last=${i.key === lastEnd && !working} />`))}
      <${Working} view=${view} works=${working && !items.some((i) => i.kind === "stream") && !asking} others=${(id) => !items.some((i) => i.task?.subAgentId === id)} />
      ${view.inbox.filter((e) => e.kind === "message" && e.state === "waiting" && e.turnId !== t.openTurnId).map((e) => html`<article class="user queued" key=${e.id} aria-label="Your message, waiting"><div class="bubble"><div class="label">${e.whenBusy === "steer" ? "will be told with the next step" : "waits for its turn"}</div><p>${contentText(e.content)}</p></div></article>`)}
      </div>
      <${Cards} model=${model} />
    </div>
    <${Composer} key=${t.id} model=${model} thread=${t} />
  </main>`;
}
