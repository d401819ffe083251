// Where a person writes. What was typed stays until the server has it.
import { html, useEffect, useRef, useState } from "./ui.js";
import { newId } from "./model.js";
import { imageAddress, unfinished } from "./format.js";

const biggestImage = 10 << 20;

function store(key, value) {
  try {
    if (value) sessionStorage.setItem(key, value);
    else sessionStorage.removeItem(key);
  } catch {
    // Without storage a draft lasts as long as the page.
  }
}

function stored(key) {
  try {
    return sessionStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

export function Composer({ model, thread }) {
  const key = `draft:${thread?.id ?? ""}`;
  const [text, setText] = useState(() => stored(key));
  const [images, setImages] = useState([]);
  const [agentName, setAgent] = useState("");
  const [whenBusy, setWhenBusy] = useState("");
  const [sending, setSending] = useState(false);
  const id = useRef(newId());
  const box = useRef(null);
  const busy = Boolean(thread && (thread.openTurnId || unfinished(thread.status)) && thread.status !== "pending");
  useEffect(() => setText(stored(key)), [key]);
  useEffect(() => {
    const b = box.current;
    b.style.height = "auto";
    b.style.height = `${Math.min(b.scrollHeight + 2, 320)}px`;
  }, [text]);

  const write = (value) => {
    setText(value);
    store(key, value);
  };
  const send = async () => {
    if (sending || (!text.trim() && !images.length)) return;
    setSending(true);
    const sent = await model.send(text, { images, agentName, whenBusy: busy ? whenBusy : "", id: id.current });
    setSending(false);
    if (!sent) return; // the same id again: it cannot be doubled
    id.current = newId();
    store(key, "");
    setText("");
    setImages([]);
    box.current?.focus();
  };
  const keys = (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      send();
    }
  };
  const attach = async (files) => {
    for (const f of files) {
      if (!/^image\/(png|jpeg|gif|webp)$/.test(f.type)) model.notice(`${f.name} is no image that can be sent: use PNG, JPEG, GIF or WebP.`);
      else if (f.size > biggestImage) model.notice(`${f.name} is too big: at most 10 MB.`);
      else {
        const r = new FileReader();
        r.onload = async () => {
          const kept = await model.act((a) => a.keepImage(r.result.slice(r.result.indexOf(",") + 1)));
          if (kept) setImages((i) => [...i, kept.url]);
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
  return html`<form class="composer" aria-label="Message" onSubmit=${(e) => (e.preventDefault(), send())}>
    ${images.length > 0 && html`<div class="row">${images.map((src, i) => html`<span class="thumb" key=${src}><img src=${imageAddress(src)} alt="Attached image ${i + 1}" /><button type="button" class="quiet" aria-label="Remove image ${i + 1}" onClick=${() => setImages(images.filter((_, k) => k !== i))}>✕</button></span>`)}</div>`}
    <div class="write"><label class="unseen" for="text">Message</label>
      <textarea id="text" ref=${box} rows="1" value=${text} placeholder=${busy ? "Write the next message" : "Write a message"} onInput=${(e) => write(e.currentTarget.value)} onKeyDown=${keys} onPaste=${paste}></textarea>
      <button class="main" disabled=${sending || (!text.trim() && !images.length)}>${sending ? "Sending…" : "Send"}</button></div>
    <div class="row">
      <label class="button quiet file">Image<input type="file" accept="image/png,image/jpeg,image/gif,image/webp" multiple onChange=${(e) => (attach([...e.currentTarget.files]), (e.currentTarget.value = ""))} /></label>
      ${!thread && model.agents.length > 1 && html`<label class="dim">Agent <select value=${agentName} onChange=${(e) => setAgent(e.currentTarget.value)}>
        <option value="">as configured</option>${model.agents.map((a) => html`<option value=${a.name} title=${a.description}>${a.name}</option>`)}</select></label>`}
      <span class="space"></span>
      ${busy && html`<label class="dim">Send <select value=${whenBusy} onChange=${(e) => setWhenBusy(e.currentTarget.value)}>
        <option value="">after this turn</option><option value="steer">now</option></select></label>
        <button type="button" class="stop" onClick=${() => model.cancel(false)}>Stop</button>
        <button type="button" class="quiet" onClick=${() => model.cancel(true)} title="Also drop what waits and stop what runs in the background">Stop all</button>`}
    </div>
  </form>`;
}
