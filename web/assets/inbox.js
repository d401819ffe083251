// "Needs you": what waits for the person in all conversations. It drives the title, the
// badge of the page, and notifications for those who want them.
import { html, Seen, useEffect, useRef, useState } from "./ui.js";
import { brief, title } from "./format.js";
import { visible } from "./visible.js";
import { label } from "./route.js";

const key = "notify";

export const wantsNotes = () => {
  try {
    return localStorage.getItem(key) === "yes" && globalThis.Notification?.permission === "granted";
  } catch {
    return false;
  }
};

const what = (a) => (a.kind === "approval" ? `asks to run ${a.toolCalls.length > 1 ? `${a.toolCalls.length} tools` : a.toolCalls[0]?.toolName}` : a.text);
const where = (model, a) => a.topic || (model.threads.has(a.rootThreadId) ? label(model.threads.get(a.rootThreadId)) : a.rootThreadId);

export function Inbox({ model }) {
  const [open, setOpen] = useState(false);
  const [notes, setNotes] = useState(wantsNotes);
  const box = useRef(null);
  const n = model.asks.length;
  useEffect(() => {
    if (!open) return;
    const away = (e) => !box.current?.contains(e.target) && setOpen(false);
    addEventListener("pointerdown", away);
    return () => removeEventListener("pointerdown", away);
  }, [open]);
  const flip = async (e) => {
    const box = e.currentTarget;
    const want = !notes && (await Notification.requestPermission()) === "granted";
    try {
      localStorage.setItem(key, want ? "yes" : "");
    } catch {
      // It lasts as long as the page.
    }
    setNotes(want);
    box.checked = want; // a refusal changes no state, so nothing draws it anew
    if (!notes && !want) model.notice("The browser does not allow notifications of this page.");
  };
  const keys = (e) => {
    if (e.key !== "Escape" || !open) return;
    e.stopPropagation();
    setOpen(false);
    box.current.querySelector("button").focus();
  };
  return html`<div class="inbox" ref=${box} onKeyDown=${keys}><button type="button" class=${n ? "needs-you" : "quiet"} aria-expanded=${open} onClick=${() => setOpen(!open)}>${n ? `Needs you (${n})` : "Nothing needs you"}</button>
    ${open && html`<div class="pop" role="region" aria-label="Needs you">
      <ul>${model.asks.map((a) => html`<li key=${a.id}><button type="button" class="quiet" onClick=${() => (setOpen(false), model.go({ thread: a.rootThreadId }))}><span class="status waiting" aria-hidden="true">${a.kind === "approval" ? "!" : "?"}</span> <b><${Seen} text=${title(a.agent)} /></b> <${Seen} text=${brief(what(a), 80)} /><br /><span class="dim"><${Seen} text=${brief(where(model, a), 60)} /></span></button></li>`)}</ul>
      ${!n && html`<p class="dim">No agent waits for you.</p>`}
      ${globalThis.Notification && html`<label class="row"><input type="checkbox" checked=${notes} onChange=${flip} /> Notify me when one does</label>`}</div>`}</div>`;
}

let asked; // the list that was told last
let told; // the ids that were there before

// tell brings the title, the badge and the notifications up to date.
export function tell(model) {
  const n = model.asks.length;
  const t = model.threads.get(model.place.thread);
  const name = `${n ? `(${n}) ` : ""}${t ? `${visible(label(t)).slice(0, 80)} · ` : ""}Spool`;
  if (document.title !== name) document.title = name;
  if (told && asked === model.asks) return;
  asked = model.asks;
  if (n) navigator.setAppBadge?.(n).catch(() => {});
  else navigator.clearAppBadge?.().catch(() => {});
  const fresh = told ? model.asks.filter((a) => !told.has(a.id)) : [];
  told = new Set(model.asks.map((a) => a.id));
  if (!document.hidden || !wantsNotes()) return;
  for (const a of fresh) {
    const note = new Notification(`${visible(title(a.agent))} needs you`, { body: visible(brief(what(a), 160)), tag: a.id });
    note.onclick = () => {
      focus();
      model.go({ thread: a.rootThreadId });
    };
  }
}
