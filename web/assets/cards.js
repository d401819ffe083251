// What waits for a person: approvals and questions, of any depth, where the person is.
import { html, Output, Seen, useState } from "./ui.js";
import { brief, title } from "./format.js";
import { visible } from "./visible.js";

function Approval({ request, model }) {
  const kept = request.toolCalls.filter((c) => c.limit === "administrator");
  const [chosen, choose] = useState(() => new Set(request.toolCalls.filter((c) => !kept.includes(c)).map((c) => c.id)));
  const [instead, setInstead] = useState(null);
  const [busy, setBusy] = useState(false);
  const several = request.toolCalls.length > 1;
  const decide = async (decision) => {
    setBusy(true);
    await model.act((a) => a.decide(request.approvalId, decision));
    setBusy(false);
  };
  const flip = (id) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    choose(next);
  };
  const part = chosen.size < request.toolCalls.length;
  return html`<section class="card" aria-label=${visible(`Approval for ${request.agent}`)} data-approval=${request.approvalId}>
    <h2><span aria-hidden="true">! </span><${Seen} text=${title(request.agent)} /> asks to run <${Seen} text=${several ? `${request.toolCalls.length} tools` : request.toolCalls[0]?.toolName} /></h2>
    ${request.toolCalls.map((c) => html`<div class="asked" key=${c.id}>
      ${several && html`<label><input type="checkbox" checked=${chosen.has(c.id)} disabled=${kept.includes(c)} onChange=${() => flip(c.id)} /> <b><${Seen} text=${c.toolName} /></b> <span class="dim"><${Seen} text=${brief(c.args)} /></span></label>`}
      <${Output} label=${`Arguments of ${c.toolName}`} value=${c.args} uncut />
    </div>`)}
    ${kept.length > 0 && html`<p class="label" role="note"><${Seen} text=${kept.map((c) => c.toolName).join(", ")} /> waits for the administrator${model.me.administrator && ` (${model.me.administrator})`}, who approves it on the server's machine: <code>approve ${request.approvalId} --user ${model.me.userId}</code>. You may deny it.</p>`}
    ${instead === null
      ? html`<div class="row">
          ${kept.length < request.toolCalls.length && html`<button type="button" class="main" disabled=${busy || !chosen.size} onClick=${() => decide({ verdict: "approve", ...(part && { calls: [...chosen] }) })}>${part ? `Approve ${chosen.size}, deny the rest` : "Approve"}</button>`}
          ${request.toolCalls.every((c) => !c.limit) && html`<button type="button" disabled=${busy} onClick=${() => decide({ verdict: "approve_all" })} title="These tools run without asking for the rest of this session">Approve all</button>`}
          <button type="button" disabled=${busy} onClick=${() => decide({ verdict: "deny" })}>Deny</button>
          <button type="button" disabled=${busy} onClick=${() => setInstead("")}>Edit…</button>
          ${request.threadId !== model.place.thread && html`<button type="button" class="quiet" onClick=${() => model.go({ inspect: request.threadId, turn: "" })}>Look at its work</button>`}
        </div>`
      : html`<form onSubmit=${(e) => (e.preventDefault(), decide({ verdict: "edit", instruction: instead }))}>
          <label>What to tell the agent instead of running it<textarea rows="2" value=${instead} onInput=${(e) => setInstead(e.currentTarget.value)} required></textarea></label>
          <div class="row"><button class="main" disabled=${busy || !instead.trim()}>Tell it</button><button type="button" onClick=${() => setInstead(null)}>Back</button></div>
        </form>`}
  </section>`;
}

function Question({ question, model }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const answer = async (e) => {
    e.preventDefault();
    setBusy(true);
    await model.act((a) => a.answer(question.questionId, text));
    setBusy(false);
  };
  return html`<section class="card" aria-label=${visible(`Question of ${question.agent}`)} data-question=${question.questionId}>
    <h2><span aria-hidden="true">? </span><${Seen} text=${title(question.agent)} /> asks</h2>
    <p class="question"><${Seen} text=${question.text} /></p>
    <form onSubmit=${answer}>
      <label>Your answer<textarea rows="2" value=${text} onInput=${(e) => setText(e.currentTarget.value)} required></textarea></label>
      <div class="row"><button class="main" disabled=${busy || !text.trim()}>Answer</button>
      ${question.threadId !== model.place.thread && html`<button type="button" class="quiet" onClick=${() => model.go({ inspect: question.threadId, turn: "" })}>Look at its work</button>`}</div>
    </form>
  </section>`;
}

export function Cards({ model }) {
  if (!model.approvals.length && !model.questions.length) return null;
  return html`<div class="cards" role="region" aria-label="Waiting for you">
    ${model.approvals.map((r) => html`<${Approval} key=${r.approvalId} request=${r} model=${model} />`)}
    ${model.questions.map((q) => html`<${Question} key=${q.questionId} question=${q} model=${model} />`)}
  </div>`;
}
