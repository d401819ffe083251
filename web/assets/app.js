// The page: what is where.
import { html, render, useEffect, useRef, useState } from "./ui.js";
import { Model } from "./model.js";
import { Chat } from "./chat.js";
import { Panel } from "./panel.js";
import { Sidebar } from "./sidebar.js";
import { Health } from "./health.js";
import { Inbox, tell, wantsNotes } from "./inbox.js";
import { Help, Palette, shortcut } from "./overlay.js";

const refusals = {
  failed: "The link's token is not known here.",
  elsewhere: "A link on another site does not log in. Open it from the terminal or the address bar, or enter its token.",
};

function Login({ model }) {
  const [token, setToken] = useState("");
  const [why, setWhy] = useState(refusals[new URLSearchParams(location.search).get("login")] ?? "");
  const login = async (e) => {
    e.preventDefault();
    try {
      await model.login(token.trim());
    } catch (err) {
      setWhy(err.message);
    }
  };
  return html`<main class="login" id="main"><form onSubmit=${login}><h1>Spool</h1>
    <label>Token of this server<input type="password" autocomplete="current-password" required value=${token} onInput=${(e) => setToken(e.currentTarget.value)} /></label>
    <p class="dim">It stands in the link that <code>spool dev</code> and <code>spool web</code> print.</p>
    <button class="main">Log in</button><p role="alert">${why}</p></form></main>`;
}

function theme(next) {
  try {
    if (next !== undefined) localStorage.setItem("theme", next);
    const t = localStorage.getItem("theme") ?? "";
    if (t) document.documentElement.dataset.theme = t;
    else delete document.documentElement.dataset.theme;
    return t;
  } catch {
    return "";
  }
}

// You is the person's menu: what the page looks like, where else to look, and the way out.
function You({ model, ui }) {
  const [open, setOpen] = useState(false);
  const [look, setLook] = useState(theme());
  const box = useRef(null);
  useEffect(() => setLook(theme()), [ui.look]);
  useEffect(() => {
    if (!open) return;
    const away = (e) => !box.current?.contains(e.target) && setOpen(false);
    addEventListener("pointerdown", away);
    return () => removeEventListener("pointerdown", away);
  }, [open]);
  const keys = (e) => {
    if (e.key !== "Escape" || !open) return;
    e.stopPropagation();
    setOpen(false);
    box.current.querySelector("button").focus();
  };
  return html`<div class="you" ref=${box} onKeyDown=${keys}><button type="button" class="quiet who" aria-expanded=${open} onClick=${() => setOpen(!open)}>${model.me.userId} <span aria-hidden="true">▾</span></button>
    ${open && html`<div class="pop">
      <label class="row">Colours <span class="space"></span><select value=${look} onChange=${(e) => setLook(theme(e.currentTarget.value))}><option value="">as the system</option><option value="light">light</option><option value="dark">dark</option></select></label>
      <button type="button" class="quiet" onClick=${() => (setOpen(false), ui.show("help"))}>All keys <kbd>?</kbd></button>
      ${model.me.ui && html`<a class="button quiet" href=${model.me.ui} target="_blank" rel="noopener">Temporal</a>`}
      <button type="button" class="quiet" onClick=${() => model.logout()}>Log out</button></div>`}</div>`;
}

// Top says whether the page is up to date, and what needs the person.
const Top = ({ model, ui }) => html`<header class="top-bar"><button type="button" class="quiet menu" aria-expanded=${ui.drawer} aria-label="Conversations" onClick=${() => (ui.drawer ? ui.closeList() : ui.openList())}>☰</button><b class="brand">Spool</b>
    <span class="live ${model.live ? "on" : "off"}" role="status">${model.live ? "live" : "reconnecting…"}</span>
    <span class="space"></span>
    <button type="button" class="quiet find" onClick=${() => ui.show("palette")}>Find… <kbd>Ctrl K</kbd></button>
    <${Inbox} model=${model} /><${You} model=${model} ui=${ui} /></header>`;

function App({ model }) {
  const [drawer, setDrawer] = useState(false);
  const [sheet, setSheet] = useState("");
  const [look, setLook] = useState(0);
  const ui = {
    drawer, sheet, look, show: setSheet, close: () => setSheet(""), openList: () => setDrawer(true),
    closeList: () => {
      setDrawer(false);
      if (document.activeElement?.closest(".sidebar")) document.querySelector(".top-bar .menu")?.focus();
    },
    theme: (t) => (theme(t), setLook(look + 1)),
  };
  useEffect(() => {
    const keys = (e) => model.me && shortcut(e, model, ui);
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  });
  if (!model.asked) return html`<main class="login" id="main"><p class="dim">Loading…</p></main>`;
  if (!model.me) return html`<${Login} model=${model} />`;
  const side = model.place.inspect && html`<${Panel} model=${model} />`;
  const shut = () => setDrawer(false);
  return html`<a class="skip" href="#text">To the message box</a>
    <div class="page ${drawer ? "drawer" : ""} ${side ? "split" : ""}">
      <${Top} model=${model} ui=${ui} />
      <${Sidebar} model=${model} onGo=${shut} />
      <button type="button" class="shade" aria-label="Close the list" tabindex=${drawer ? 0 : -1} onClick=${ui.closeList}></button>
      <div class="middle"><${Health} model=${model} /><${Chat} model=${model} /></div>
      ${side}
      <div class="notices" role="region" aria-label="Notices" aria-live="assertive">${model.notices.map((n) => html`<p key=${n.id} class=${n.bad ? "bad" : ""}>${n.text} <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => model.dismiss(n.id)}>✕</button></p>`)}</div>
      ${sheet === "palette" && html`<${Palette} model=${model} ui=${ui} />`}${sheet === "help" && html`<${Help} ui=${ui} />`}
    </div>`;
}

const root = document.getElementById("page");
const pause = 80; // streamed text is drawn so often, in milliseconds
let drawn = 0;
let later = 0;
let all = true; // whether more than such a text is to be drawn
const model = new Model((text) => {
  // A page that nobody sees draws nothing, and tells what needs the person all the same.
  if (document.hidden && model.me) tell(model);
  all ||= !text;
  if (drawn) return;
  if (text) later ||= setTimeout(() => ((later = 0), (drawn ||= requestAnimationFrame(draw))), pause);
  else drawn = requestAnimationFrame(draw);
});
function draw() {
  drawn = 0;
  clearTimeout(later);
  later = 0;
  if (!all) return model.writers.forEach((f) => f());
  all = false;
  render(html`<${App} model=${model} />`, root);
  if (model.me) tell(model);
}

// A page in the background draws nothing, and after a while follows nothing unless it is
// to notify: it is up to date again when it is back.
let hidden = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hidden);
  if (document.hidden) {
    if (!wantsNotes()) hidden = setTimeout(() => model.sleep(), 5_000);
    return;
  }
  model.wake();
  model.changed();
});

root.replaceChildren(); // what stood there until now
model.start();
draw();
