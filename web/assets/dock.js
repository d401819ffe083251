// What waits for the person in this conversation: docked above the composer, one card for
// each agent that asks.
import { html, Markdown, Output, Seen, useEffect, useRef, useState } from "./ui.js";
import { api } from "./api.js";
import { brief, title } from "./format.js";
import { changes } from "./diff.js";
import { visible } from "./visible.js";
import { parsed } from "./thread.js";
import { argumentsOf, changed, fieldsOf } from "./fields.js";

// Diff shows what a call changes in a file.
export function Diff({ tool, args, before }) {
  const list = changes(tool, args, before);
  if (!list) return null;
  const sign = (s) => list.filter(([k]) => k === s).length;
  return html`<div class="diff" data-diff>
    <div class="label"><code><${Seen} text=${args.path ?? ""} /></code> <span class="plus">+${sign("+")}</span> <span class="minus">−${sign("-")}</span></div>
    <pre tabindex="0" role="region" aria-label=${visible(`Change of ${args.path ?? "a file"}`)}>${list.map(([k, line], i) => html`<span key=${i} class=${{ "+": "plus", "-": "minus" }[k] ?? ""}><span class="sign">${k}</span><${Seen} text=${line} />${"\n"}</span>`)}</pre>
  </div>`;
}

// Asked is a call that waits: what it would do, as a person sees it best.
function Asked({ call, folder }) {
  const args = parsed(call.args);
  const [before, setBefore] = useState({});
  useEffect(() => {
    // Without it all lines stand there as new.
    if (call.toolName === "file_write") api.before(call.id).then(setBefore, () => {});
  }, [call.id]);
  if (call.toolName === "shell" && typeof args.command === "string") {
    const { command, ...rest } = args;
    return html`<div class="command"><pre tabindex="0" role="region" aria-label="Command"><span class="prompt" aria-hidden="true">$ </span><${Seen} text=${command} /></pre>
      ${(call.workdir || folder) && html`<div class="label">in <code><${Seen} text=${call.workdir || folder} /></code></div>`}
      ${Object.keys(rest).length > 0 && html`<${Output} label="More arguments" value=${rest} uncut />`}</div>`;
  }
  if (changes(call.toolName, args)) return html`<${Diff} tool=${call.toolName} args=${args} before=${before.path === args.path ? before.text : ""} />`;
  return html`<${Output} label=${`Arguments of ${call.toolName}`} value=${call.args} uncut />`;
}

// Fields change the arguments of a call. What would run is shown above them, so that
// nothing hides in a field.
function Fields({ fields, change, leave, approve }) {
  const { wrong } = argumentsOf(fields);
  const keys = (e) => {
    if (e.key === "Escape") leave();
    else if (e.key === "Enter" && (e.metaKey || e.ctrlKey)) approve();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const lines = (text) => Math.min(10, Math.max(1, text.split("\n").length, Math.ceil(text.length / 90)));
  return html`<div class="fields" role="group" aria-label="Arguments" onKeyDown=${keys}>
    ${fields.map((f, i) => html`<label key=${f.key}><span class="label"><${Seen} text=${f.key} />${f.json ? " (JSON)" : ""}</span><textarea rows=${lines(f.text)} dir="auto" spellcheck=${false} value=${f.text} ref=${(e) => e && !i && !e.dataset.begun && ((e.dataset.begun = "1"), e.focus())} onInput=${(e) => change(fields.map((x) => (x === f ? { ...f, text: e.currentTarget.value } : x)))}></textarea></label>`)}
    <div class="row">${wrong ? html`<span class="bad-text" role="alert">${wrong}</span>` : html`<span class="label">Runs with these instead; the agent is told that you changed them.</span>`}<span class="space"></span><button type="button" class="quiet small" onClick=${leave}>Undo the edit</button></div>
  </div>`;
}

// About is what the agent works on that asks.
function About({ model, ask }) {
  if (!ask.task) return null;
  const task = model.tasks.get(ask.rootThreadId)?.find((k) => k.subAgentId === ask.threadId) ?? model.taskOf(ask.threadId);
  return html`<p class="label"><${Seen} text=${brief(task?.description ?? ask.task, 120)} /></p>`;
}

function Approval({ request, model, first }) {
  const kept = request.toolCalls.filter((c) => c.limit === "administrator");
  const [chosen, choose] = useState(() => new Set(request.toolCalls.filter((c) => !kept.includes(c)).map((c) => c.id)));
  const [instead, setInstead] = useState(null);
  const [busy, setBusy] = useState(false);
  const [edits, setEdits] = useState({}); // call id -> fields
  const several = request.toolCalls.length > 1;
  const folder = model.threads.get(request.threadId)?.workdir ?? model.threads.get(request.rootThreadId)?.workdir;
  const decide = async (decision) => {
    if (busy) return;
    setBusy(true);
    await model.settle(request, (a) => a.decide(request.approvalId, decision));
    setBusy(false);
  };
  const flip = (id) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    choose(next);
  };
  const part = chosen.size < request.toolCalls.length;
  const may = kept.length < request.toolCalls.length;
  const edited = request.toolCalls.filter((c) => chosen.has(c.id) && edits[c.id] && changed(edits[c.id], parsed(c.args)));
  const wrong = edited.some((c) => argumentsOf(edits[c.id]).wrong);
  const approve = () => may && chosen.size && !wrong && decide({
    verdict: "approve", ...(part && { calls: [...chosen] }), ...(edited.length && { arguments: Object.fromEntries(edited.map((c) => [c.id, argumentsOf(edits[c.id]).args])) }),
  });
  const verb = part ? `Approve ${chosen.size}${edited.length ? " as edited" : ""}, deny the rest` : `Approve${several ? ` all ${chosen.size}` : ""}${edited.length ? " as edited" : ""}`;
  const leaveEdit = (id) => {
    const { [id]: _, ...rest } = edits;
    setEdits(rest);
    requestAnimationFrame(() => document.querySelector(`[data-approval="${request.approvalId}"] [data-edit="${id}"]`)?.focus());
  };
  const editButton = (c) => !kept.includes(c) && !edits[c.id] && fieldsOf(parsed(c.args)) && html`<button type="button" class=${several ? "quiet small" : ""} data-key=${c === request.toolCalls[0] ? "e" : undefined} data-edit=${c.id} disabled=${busy} onClick=${() => setEdits({ ...edits, [c.id]: fieldsOf(parsed(c.args)) })}>Edit${first && c === request.toolCalls[0] && html`<kbd>E</kbd>`}</button>`;
  const back = useRef(null);
  const reply = () => {
    back.current = document.activeElement;
    setInstead("");
  };
  const leave = () => {
    setInstead(null);
    requestAnimationFrame(() => document.querySelector(`[data-approval="${request.approvalId}"] [data-key=r]`)?.focus());
  };
  const always = !request.toolCalls.some((c) => c.limit) && !edited.length;
  const like = [...new Set(request.toolCalls.map((c) => c.like))];
  const tools = [...new Set(request.toolCalls.map((c) => c.toolName))].join(", ");
  return html`<section class="card" aria-label=${visible(`Approval for ${request.agent}`)} data-approval=${request.approvalId} data-first=${first ? "" : undefined}>
    <h2><span aria-hidden="true">! </span><${Seen} text=${title(request.agent)} /> asks to run <${Seen} text=${several ? `${request.toolCalls.length} tools` : request.toolCalls[0]?.toolName} /></h2>
    <${About} model=${model} ask=${request} />
    ${request.toolCalls.map((c) => html`<div class="asked" key=${c.id}>
      ${several && html`<label class="each"><input type="checkbox" checked=${chosen.has(c.id)} disabled=${kept.includes(c)} onChange=${() => flip(c.id)} /> <b><${Seen} text=${c.toolName} /></b> <span class="dim"><${Seen} text=${brief(c.args)} /></span><span class="space"></span><span class="label">${chosen.has(c.id) ? "approve" : "deny"}</span></label>`}
      <${Asked} call=${edits[c.id] ? { ...c, args: argumentsOf(edits[c.id]).args ?? c.args } : c} folder=${folder} />
      ${edits[c.id] ? html`<${Fields} fields=${edits[c.id]} change=${(f) => setEdits({ ...edits, [c.id]: f })} leave=${() => leaveEdit(c.id)} approve=${approve} />` : several && editButton(c)}
    </div>`)}
    ${kept.length > 0 && html`<p class="label" role="note"><${Seen} text=${kept.map((c) => c.toolName).join(", ")} /> waits for the administrator${model.me.administrator && ` (${model.me.administrator})`}, who approves it on the server's machine: <code>approve ${request.approvalId} --user ${model.me.userId}</code>. You may deny it.</p>`}
    ${instead === null
      ? html`<div class="row decide">
          ${may && html`<button type="button" class="main" data-key="a" disabled=${busy || !chosen.size || wrong} onClick=${approve}>${verb}${first && html`<kbd>A</kbd>`}</button>`}
          <button type="button" data-key="d" disabled=${busy} onClick=${() => decide({ verdict: "deny" })}>Deny${first && html`<kbd>D</kbd>`}</button>
          ${!several && may && editButton(request.toolCalls[0])}
          <button type="button" data-key="r" disabled=${busy} onClick=${reply}>Reply instead…${first && html`<kbd>R</kbd>`}</button>
        </div>
        <div class="row others">
          ${request.threadId !== model.place.thread && html`<button type="button" class="quiet small" onClick=${() => model.go({ inspect: request.threadId, tab: "", turn: "" })}>Look at its work</button>`}
          ${always && like.every(Boolean) && html`<button type="button" class="quiet small" disabled=${busy} onClick=${() => decide({ verdict: "approve_all", narrow: true })} title="Calls like these run without asking for the rest of this session">Ask no more for <${Seen} text=${like.join(", ")} /></button>`}
          ${always && html`<button type="button" class="quiet small" disabled=${busy} onClick=${() => decide({ verdict: "approve_all" })} title="These tools run without asking for the rest of this session">Ask no more for ${tools} in this session</button>`}
        </div>`
      : html`<form onSubmit=${(e) => (e.preventDefault(), decide({ verdict: "edit", instruction: instead }))} onKeyDown=${(e) => e.key === "Escape" && (e.stopPropagation(), leave())}>
          <label>What to tell the agent instead of running it<textarea rows="2" dir="auto" ref=${(e) => e && !e.dataset.begun && ((e.dataset.begun = "1"), e.focus())} value=${instead} onInput=${(e) => setInstead(e.currentTarget.value)} required></textarea></label>
          <div class="row"><button class="main" disabled=${busy || !instead.trim()}>Tell it</button><button type="button" onClick=${leave}>Back</button></div>
        </form>`}
  </section>`;
}

function Question({ question, model }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const say = async (words) => {
    setBusy(true);
    await model.settle(question, (a) => a.answer(question.questionId, words));
    setBusy(false);
  };
  const answer = (e) => (e.preventDefault(), say(text));
  return html`<section class="card" aria-label=${visible(`Question of ${question.agent}`)} data-question=${question.questionId}>
    <h2><span aria-hidden="true">? </span><${Seen} text=${title(question.agent)} /> asks</h2>
    <${About} model=${model} ask=${question} />
    <div class="question"><${Markdown} text=${question.text} decided /></div>
    ${question.options && html`<div class="row" role="group" aria-label="Answers to choose from">
      ${question.options.map((option) => html`<button type="button" disabled=${busy} onClick=${() => say(option)}><${Seen} text=${option} /></button>`)}
    </div>`}
    <form class="reply" onSubmit=${answer}>
      <label><span class="unseen">Your answer</span><textarea rows="1" dir="auto" placeholder="Your answer" value=${text} onInput=${(e) => setText(e.currentTarget.value)} onKeyDown=${(e) => e.key === "Enter" && (e.metaKey || e.ctrlKey) && text.trim() && answer(e)} required></textarea></label>
      <button class="main" disabled=${busy || !text.trim()}>Answer</button>
    </form>
    ${question.threadId !== model.place.thread && html`<button type="button" class="quiet small" onClick=${() => model.go({ inspect: question.threadId, tab: "", turn: "" })}>Look at its work</button>`}
  </section>`;
}

// Dock shows them. What has the focus when it is settled gives it to the next one, and
// the last one to the message box.
export function Dock({ model, thread }) {
  const asks = model.asksOf(thread);
  const box = useRef(null);
  const inside = useRef(false);
  useEffect(() => {
    if (!inside.current) return;
    if (box.current?.contains(document.activeElement)) return;
    if (document.activeElement !== document.body && document.activeElement) return;
    (box.current?.querySelector(".card button, .card textarea") ?? document.getElementById("text"))?.focus();
    inside.current = asks.length > 0;
  }, [asks.length]);
  if (!asks.length) return null;
  const firstApproval = asks.find((a) => a.kind === "approval")?.id;
  return html`<div class="dock" ref=${box} role="region" aria-label="Waiting for you" onFocusIn=${() => (inside.current = true)} onFocusOut=${(e) => e.relatedTarget && !e.currentTarget.contains(e.relatedTarget) && (inside.current = false)}>
    ${asks.length > 1 && html`<p class="label many">${asks.length} wait for you</p>`}
    ${asks.map((a) => (a.kind === "approval" ? html`<${Approval} key=${a.id} request=${a} model=${model} first=${a.id === firstApproval} />` : html`<${Question} key=${a.id} question=${a} model=${model} />`))}
  </div>`;
}
