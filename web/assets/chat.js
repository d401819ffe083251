// The chat: the person and the orchestrator, turn by turn; below it what waits for the
// person, and where they write.
import { html, Status, memo, useEffect, useLayoutEffect, useNow, useRef, useState } from "./ui.js";
import { contentText, figures, price, title, tokens, unfinished, waitText } from "./format.js";
import { answerOf, answers } from "./items.js";
import { waiting } from "./thread.js";
import { label } from "./route.js";
import { Long, Turn } from "./turn.js";
import { Dock } from "./dock.js";
import { Composer } from "./composer.js";
import { Welcome } from "./welcome.js";
import { Go } from "./go.js";

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
  return html`${works && !own && html`<p class="dim working" role="status"><span class="pulse" aria-hidden="true"></span> working</p>`}
    ${waits.map((w) => html`<${Wait} key=${w.threadId} wait=${w} now=${now} who=${w.threadId !== id} />`)}`;
}

// useBottom keeps the newest in sight while a person is at the bottom, and what they
// read in place while earlier messages come. It tells whether they are away from it.
export function useBottom(view, earlier) {
  const box = useRef(null);
  const at = useRef({ bottom: true, top: 0, height: 0, first: 0 });
  const [away, setAway] = useState(false);
  const settle = () => {
    const b = box.current;
    if (!b) return;
    if (at.current.bottom) b.scrollTop = b.scrollHeight;
    if (at.current.first > 1 && b.scrollHeight <= b.clientHeight) earlier();
    at.current.height = b.scrollHeight;
    at.current.top = b.scrollTop;
    setAway(!at.current.bottom && b.scrollHeight - b.scrollTop - b.clientHeight > 60);
  };
  useLayoutEffect(() => {
    const b = box.current;
    if (!b) return;
    if (at.current.first && view.firstSeq < at.current.first && !at.current.bottom) b.scrollTop += b.scrollHeight - at.current.height;
    at.current.first = view.firstSeq;
    settle();
  }, [view]);
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
    setAway(!at.current.bottom);
    if (b.scrollTop < 200 && !at.current.bottom) earlier();
  };
  const latest = () => {
    at.current.bottom = true;
    setAway(false);
    settle();
  };
  const leave = () => (at.current.bottom = false);
  return { box, scrolled, away, latest, leave };
}

const perBlock = 40; // messages, by their seq, whose turns are compared as one

// Block is a run of turns: one that did not change costs one comparison, and it stays the
// same when turns come before or after it.
const Block = memo(
  function Block({ list }) {
    return html`<div class="block">${list.map((p) => html`<${Turn} key=${p.turn.id} ...${p} />`)}</div>`;
  },
  (a, b) => a === b || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((x, i) => same(x, b[i]))),
);
const same = (a, b) => Object.keys(a).every((k) => a[k] === b[k] || (Array.isArray(a[k]) && a[k].length === b[k]?.length && a[k].every((x, i) => x === b[k][i])));

const none = [];
const noWaits = new Map();

// Turns draws the turns of a view.
export function Turns({ model, view, chat, who, last }) {
  const turns = view.turns;
  const inspect = model.place.inspect;
  const list = turns.map((turn, i) => {
    const agents = [...turn.tasks.values()].filter((t) => t.type === "agent");
    const kids = agents.length ? agents.flatMap((t) => [model.threads.get(t.subAgentId), ...model.below(t.subAgentId)]) : none;
    const earlier = answers(turns, i);
    const next = turns[i + 1];
    const replaced = Boolean(next && !next.messages.some((m) => m.role === "user") && (answerOf(next) || next.streams.size));
    return { turn, model, chat, who, kids, parent: view.thread.parentThreadId, last: last && i === turns.length - 1, waits: kids.length ? view.waits : noWaits, earlier: earlier.length ? earlier : none, replaced, inspect: kids.some((t) => t?.id === inspect) ? inspect : "" };
  });
  const blocks = new Map();
  let at = 0;
  for (const p of list) {
    const seq = p.turn.messages[0]?.seq; // one that has just begun has none
    if (seq) at = Math.floor(seq / perBlock);
    blocks.set(at, [...(blocks.get(at) ?? []), p]);
  }
  return [...blocks].map(([at, b]) => html`<${Block} key=${at} list=${b} />`);
}

// demoModel is the name of the scripted model.
const demoModel = "spool-script";

// Demo says that no real model answers, or that none is to be expected.
export function Demo({ expected }) {
  const [gone, setGone] = useState(() => sessionStorage.getItem("demo") === "gone");
  if (gone && !expected) return null;
  const dismiss = () => {
    sessionStorage.setItem("demo", "gone");
    setGone(true);
  };
  return html`<p class="demo" role="note"><span><b>Demo model.</b> ${expected ? "No model is configured for this server: a worker with the same settings lets a scripted demo model answer." : "A scripted demo model answers, as no model is configured for the worker."} <span class="how">Set <code>OPENAI_API_KEY</code> or <code>OPENAI_BASE_URL</code> (and <code>SPOOL_MODEL</code>) in the worker's environment and start it again for a real one.</span></span>${!expected && html`<button type="button" class="quiet small" aria-label="Dismiss" onClick=${dismiss}>✕</button>`}</p>`;
}

export function Chat({ model }) {
  const id = model.place.thread;
  const view = model.views.get(id);
  if (!id) return html`<main class="chat" id="main"><${Welcome} model=${model} /><${Composer} key="new" model=${model} /></main>`;
  if (!view) {
    const why = model.missing.get(id);
    return html`<main class="chat" id="main"><div class="welcome"><h1>${why ? "Not here" : "Loading…"}</h1>${why && html`<p role="alert">${why}</p>`}</div></main>`;
  }
  if (view.thread.kind !== "main") {
    model.go({ thread: view.thread.rootThreadId, inspect: id }, { replace: true });
    return null;
  }
  return html`<${Conversation} key=${id} model=${model} view=${view} />`;
}

// Bar is what the conversation is, what it does and what a person can do about it.
function Bar({ model, t, view }) {
  const background = model.inBackground(t);
  const status = model.statusOf(t);
  return html`<header class="bar"><h1 title=${t.id}><bdi>${label(t)}</bdi></h1><${Status} of=${status} words />
    ${background.length > 0 && html`<span class="background" role="status"><span class="pulse" aria-hidden="true"></span> ${background.length === 1 ? "1 agent" : `${background.length} agents`} in the background <button type="button" class="small stop" onClick=${() => model.cancel(true)}>Stop</button></span>`}
    <span class="space"></span>
    <span class="dim sum">${figures(tokens(t.totalTokens), price(t.totalPrice))}</span>
    <${Go} model=${model} to=${{ inspect: model.place.inspect === t.id ? "" : t.id, tab: "", turn: "" }} class="button quiet small inspect" aria-current=${model.place.inspect === t.id ? "true" : undefined}>Inspect<//>
    ${view.ui && html`<a class="dim small temporal" href=${view.ui} target="_blank" rel="noopener">Temporal</a>`}</header>`;
}

// useTarget brings a message that the address names into sight.
function useTarget(model, view, box, leave) {
  const wanted = useRef(decodeURIComponent(location.hash.slice(1)));
  useEffect(() => {
    if (!wanted.current) return;
    const found = document.getElementById(wanted.current);
    leave();
    if (found && box.current?.contains(found)) {
      wanted.current = "";
      found.classList.add("target");
      found.scrollIntoView({ block: "center" });
    } else if (view.firstSeq > 1) model.earlier(view.thread.id);
    else wanted.current = "";
  }, [view]);
}

function Conversation({ model, view }) {
  const t = model.threads.get(view.thread.id) ?? view.thread;
  const { box, scrolled, away, latest, leave } = useBottom(view, () => model.earlier(t.id));
  useTarget(model, view, box, leave);
  const working = Boolean(t.openTurnId);
  const open = view.turns.at(-1);
  const asking = model.asksOf(t.id).length;
  const agents = new Set([...(open?.tasks.values() ?? [])].map((k) => k.subAgentId));
  return html`<main class="chat" id="main">
    <${Bar} model=${model} t=${t} view=${view} />
    ${view.model === demoModel && html`<${Demo} />`}
    ${view.trouble && html`<p class="trouble" role="alert">${view.trouble}</p>`}
    <div class="reading"><div class="log" ref=${box} onScroll=${scrolled} tabindex="0" role="region" aria-label="Messages"><div class="measure">
      ${view.firstSeq > 1 && html`<button type="button" class="quiet earlier" onClick=${() => model.earlier(t.id)}>Earlier messages</button>`}
      <div role="log" aria-live="polite" aria-relevant="additions">
      <${Turns} model=${model} view=${view} chat=${t.id} who="Orchestrator" last=${!working} />
      <${Working} view=${view} works=${working && !open?.streams.size && !asking} others=${(id) => !agents.has(id)} />
      ${view.inbox.filter((e) => e.kind === "message" && e.state === "waiting" && e.turnId !== t.openTurnId).map((e) => html`<article class="user queued" key=${e.id} aria-label="Your message, waiting"><div class="bubble"><div class="label">${e.whenBusy === "steer" ? "will be told with the next step" : "waits for its turn"}</div><${Long} text=${contentText(e.content)} /></div></article>`)}
      </div>
    </div></div>
    ${away && html`<button type="button" class="latest" onClick=${latest}>↓ Latest</button>`}</div>
    <${Dock} model=${model} thread=${t.id} />
    <${Composer} key=${t.id} model=${model} thread=${t} onSent=${latest} busy=${working || (unfinished(t.status) && t.status !== "pending")} />
  </main>`;
}
