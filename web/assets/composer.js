// Where a person writes. What was typed stays until the server has it.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";
import { newId } from "./model.js";
import { imageAddress } from "./format.js";
import * as drafts from "./drafts.js";

const biggestImage = 10 << 20;
const kinds = "image/png,image/jpeg,image/gif,image/webp";

// touch is where Enter makes a line, as there is no Shift.
const touch = matchMedia("(pointer: coarse) and (hover: none)");

export function Composer({ model, thread, busy, onSent }) {
  const key = thread?.id ?? "";
  const [draft, setDraft] = useState(() => drafts.read(key) ?? { text: "", images: [], id: newId() });
  const [agentName, setAgent] = useState("");
  const [whenBusy, setWhenBusy] = useState("");
  const [sending, setSending] = useState(false);
  const [over, setOver] = useState(false);
  const box = useRef(null);
  const now = useRef(draft); // what an upload that ends later adds to
  now.current = draft;
  const { text, images } = draft;
  // A message is no answer to an approval: it waits.
  const asked = thread && model.asksOf(thread.id).some((a) => a.kind === "approval");
  useEffect(() => {
    // Who began a conversation goes on writing.
    if (thread && !touch.matches && document.activeElement === document.body && !location.hash) box.current?.focus();
  }, []);
  useLayoutEffect(() => {
    const b = box.current;
    b.style.height = "auto";
    b.style.height = `${Math.min(b.scrollHeight + 2, 320)}px`;
  }, [text]);

  const write = (change) => {
    const next = { ...now.current, ...change };
    setDraft((now.current = next));
    drafts.write(key, next);
  };
  const send = async () => {
    if (sending || (!text.trim() && !images.length)) return;
    setSending(true);
    const sent = await model.send(text, { images, agentName, whenBusy: busy ? whenBusy || (asked ? "queue" : "") : "", id: draft.id });
    setSending(false);
    if (!sent) return; // the same id again: it cannot be doubled
    write({ text: "", images: [], id: newId() });
    onSent?.();
    box.current?.focus();
  };
  const keys = (e) => {
    if (e.key !== "Enter" || e.isComposing || e.shiftKey || (touch.matches && !e.ctrlKey && !e.metaKey)) return;
    e.preventDefault();
    send();
  };
  const attach = async (files) => {
    for (const f of files) {
      if (!kinds.split(",").includes(f.type)) model.notice(`${f.name} is no image that can be sent: use PNG, JPEG, GIF or WebP.`);
      else if (f.size > biggestImage) model.notice(`${f.name} is too big: at most 10 MB.`);
      else {
        const r = new FileReader();
        r.onload = async () => {
          const kept = await model.act((a) => a.keepImage(r.result.slice(r.result.indexOf(",") + 1)));
          if (kept) write({ images: [...now.current.images, kept.url] });
        };
        r.readAsDataURL(f);
      }
    }
  };
  const paste = (e) => {
    if (!e.clipboardData?.files.length) return;
    e.preventDefault();
    attach(e.clipboardData.files);
  };
  const files = (e) => [...(e.dataTransfer?.types ?? [])].includes("Files");
  useEffect(() => {
    // Images may be dropped anywhere.
    const hover = (e) => files(e) && (e.preventDefault(), setOver(true));
    const out = (e) => !e.relatedTarget && setOver(false);
    const drop = (e) => {
      if (!files(e)) return;
      e.preventDefault();
      setOver(false);
      attach([...e.dataTransfer.files]);
    };
    const all = { dragenter: hover, dragover: hover, dragleave: out, drop };
    for (const [name, f] of Object.entries(all)) addEventListener(name, f);
    return () => Object.entries(all).forEach(([name, f]) => removeEventListener(name, f));
  }, [key]);
  return html`<form class="composer" aria-label="Message" onSubmit=${(e) => (e.preventDefault(), send())}>
    ${over && html`<p class="drop" role="status">Drop images here</p>`}
    ${images.length > 0 && html`<div class="row">${images.map((src, i) => html`<span class="thumb" key=${src}><img src=${imageAddress(src)} alt="Attached image ${i + 1}" /><button type="button" class="quiet" aria-label="Remove image ${i + 1}" onClick=${() => write({ images: images.filter((_, k) => k !== i) })}>✕</button></span>`)}</div>`}
    <div class="write"><label class="unseen" for="text">Message</label>
      <textarea id="text" ref=${box} rows="1" dir="auto" value=${text} enterkeyhint=${touch.matches ? "enter" : "send"} placeholder=${busy ? "Write the next message" : "Write a message"} onInput=${(e) => write({ text: e.currentTarget.value })} onKeyDown=${keys} onPaste=${paste}></textarea>
      <button class="main" disabled=${sending || (!text.trim() && !images.length)}>${sending ? "Sending…" : "Send"}</button></div>
    <div class="row under">
      <label class="button quiet small file">Image<input type="file" accept=${kinds} multiple onChange=${(e) => (attach([...e.currentTarget.files]), (e.currentTarget.value = ""))} /></label>
      ${!thread && model.agents.length > 1 && html`<label class="dim">Agent <select value=${agentName} onChange=${(e) => setAgent(e.currentTarget.value)}>
        <option value="">as configured</option>${model.agents.map((a) => html`<option value=${a.name} title=${a.description}>${a.name}</option>`)}</select></label>`}
      <span class="space"></span>
      ${busy && html`<label class="dim">Send <select value=${whenBusy} onChange=${(e) => setWhenBusy(e.currentTarget.value)}>
        <option value="">after this turn</option><option value="steer">now</option></select></label>
        <button type="button" class="stop small" onClick=${() => model.cancel(false)}>Stop</button>
        <button type="button" class="quiet small" onClick=${() => model.cancel(true)} title="Also drop what waits and stop what runs in the background">Stop all</button>`}
    </div>
  </form>`;
}
