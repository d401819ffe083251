// The page: what is where.
import { html, render, useState } from "./ui.js";
import { Model } from "./model.js";
import { Chat } from "./chat.js";
import { Inspector } from "./inspector.js";
import { Sidebar } from "./sidebar.js";
import { Trace } from "./trace.js";

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

function App({ model }) {
  const [drawer, setDrawer] = useState(false);
  const [look, setLook] = useState(theme());
  if (!model.asked) return html`<main class="login" id="main"><p class="dim">Loading…</p></main>`;
  if (!model.me) return html`<${Login} model=${model} />`;
  const side = model.place.inspect ? html`<${Inspector} model=${model} />` : model.place.turn ? html`<aside class="side" aria-label="Trace of a turn" data-timeline=${model.place.turn}><header class="bar"><h2>Trace</h2><span class="space"></span><button type="button" class="quiet" onClick=${() => model.go({ turn: "" })} aria-label="Close the trace">✕</button></header><div class="log" tabindex="0" role="region" aria-label="Spans"><${Trace} key=${`${model.place.thread} ${model.place.turn}`} model=${model} thread=${model.place.thread} turn=${model.place.turn} /></div></aside>` : null;
  const shut = () => setDrawer(false);
  return html`<a class="skip" href="#text">To the message box</a>
    <div class="page ${drawer ? "drawer" : ""} ${side ? "split" : ""}">
      <header class="top-bar"><button type="button" class="quiet menu" aria-expanded=${drawer} aria-label="Conversations" onClick=${() => setDrawer(!drawer)}>☰</button><b>Spool</b>
        <span class="live ${model.live ? "on" : "off"}" role="status">${model.live ? "live" : "reconnecting…"}</span><span class="space"></span>
        ${model.me.ui && html`<a href=${model.me.ui} target="_blank" rel="noopener">Temporal</a>`}
        <label class="dim"><span class="unseen">Colours</span><select value=${look} onChange=${(e) => setLook(theme(e.currentTarget.value))}><option value="">as the system</option><option value="light">light</option><option value="dark">dark</option></select></label>
        <span class="dim who">${model.me.userId}</span><button type="button" class="quiet" onClick=${() => model.logout()}>Log out</button></header>
      <${Sidebar} model=${model} onGo=${shut} />
      <button type="button" class="shade" aria-label="Close the list" tabindex=${drawer ? 0 : -1} onClick=${shut}></button>
      <${Chat} model=${model} />
      ${side}
      <div class="notices" role="region" aria-label="Notices" aria-live="assertive">${model.notices.map((n) => html`<p key=${n.id} class=${n.bad ? "bad" : ""}>${n.text} <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => model.dismiss(n.id)}>✕</button></p>`)}</div>
    </div>`;
}

const root = document.getElementById("page");
let drawn = 0;
const model = new Model(() => {
  drawn ||= requestAnimationFrame(draw);
});
function draw() {
  drawn = 0;
  render(html`<${App} model=${model} />`, root);
}

addEventListener("keydown", (e) => {
  const typing = e.target instanceof Element && e.target.closest("input, textarea, select");
  if (e.key === "/" && !typing) {
    e.preventDefault();
    document.getElementById("text")?.focus();
  } else if (e.key === "Escape" && (model.place.inspect || model.place.turn)) model.go({ inspect: "", turn: "" });
});

// A page in the background draws nothing, and after a while follows nothing: it is up
// to date again when it is back.
let hidden = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hidden);
  if (document.hidden) {
    hidden = setTimeout(() => model.sleep(), 5_000);
    return;
  }
  model.wake();
  model.changed();
});

draw();
model.start();
