// The page without a conversation: what this is, and what to try.
import { html } from "./ui.js";
import { newId } from "./model.js";
import { Demo } from "./chat.js";

const examples = [
  ["Have two agents look around at once", `script: think Two pieces that do not need each other => call assign_task {"agent":"researcher","task":"script: call ls {\\"path\\":\\".\\"} ;; slow 40ms say The folder is listed above.","description":"List the files here"} && call assign_task {"agent":"general","task":"script: call calculator {\\"expression\\":\\"24*60*60\\"} ;; slow 40ms echo Seconds of a day:","description":"Work out the seconds of a day"} ;; slow 30ms say Both have reported.`],
  ["See what asks before it runs", `script: call shell {"command":"date"} ;; echo It printed:`],
  ["Be asked a question", `script: ask Which colour do you like? ;; echo You said:`],
];

export function Welcome({ model }) {
  const demo = model.me.demo;
  return html`<div class="welcome"><h1>Spool</h1><p>Agent conversations that cannot be lost: kill any process at any moment, the work goes on.</p>
    ${demo && html`<${Demo} expected />
      <ul class="examples">${examples.map(([title, text]) => html`<li key=${title}><button type="button" onClick=${() => model.send(text, { id: newId(), to: {} })}>${title}</button></li>`)}</ul>`}
    <p class="dim small keys"><kbd>/</kbd> message · <kbd>Ctrl K</kbd> find and do anything · <kbd>?</kbd> all keys</p></div>`;
}
