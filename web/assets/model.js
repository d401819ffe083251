// What the page knows, and what a person can do. Views read it and call it; it tells
// them when to draw again.
import { api, ApiError } from "./api.js";
import { follow } from "./follow.js";
import { fold, fromView, prepend } from "./thread.js";
import { read, way, write } from "./route.js";

const pageSize = 80;

// newId is an id for a message or a request: repeating it is safe.
export function newId() {
  const b = crypto.getRandomValues(new Uint8Array(16));
  return "web-" + [...b].map((x) => x.toString(16).padStart(2, "0")).join("");
}

export class Model {
  constructor(changed) {
    this.changed = changed;
    this.me = null;
    this.asked = false; // whether it is known who asks
    this.place = read(location.search);
    this.threads = new Map();
    this.views = new Map(); // thread id -> state
    this.missing = new Map(); // thread id -> why it cannot be shown
    this.agents = [];
    this.approvals = [];
    this.questions = [];
    this.notices = [];
    this.live = false;
    this.list = { since: "" }; // how far the list of threads is known
    this.older = ""; // where the list of older conversations goes on
    this.stop = () => {};
    addEventListener("popstate", () => this.arrive(read(location.search)));
  }

  async start() {
    try {
      this.me = await api.me();
    } catch (err) {
      if (err.status !== 401) this.notice(err);
    }
    this.asked = true;
    this.changed();
    if (!this.me) return;
    api.threads({ limit: 100 }).then((list) => this.listed(list), () => {});
    api.agents().then((a) => (this.agents = a.agents), () => {});
    await this.arrive(this.place);
  }

  async login(token) {
    this.me = await api.login(token);
    await this.start();
  }

  async logout() {
    await api.logout();
    location.assign("/");
  }

  notice(err) {
    const text = err instanceof Error ? err.message : String(err);
    if (this.notices.some((n) => n.text === text)) return;
    const n = { id: newId(), text, bad: err instanceof Error };
    this.notices = [...this.notices, n];
    this.changed();
    setTimeout(() => this.dismiss(n.id), n.bad ? 20_000 : 6_000);
  }

  dismiss(id) {
    this.notices = this.notices.filter((n) => n.id !== id);
    this.changed();
  }

  go(change) {
    const place = { ...this.place, ...change };
    if (change.thread !== undefined && change.thread !== this.place.thread) Object.assign(place, { inspect: "", turn: "", ...change });
    history.pushState(null, "", write(place));
    return this.arrive(place);
  }

  // arrive shows a place: loads its threads and follows them.
  async arrive(place) {
    this.place = place;
    this.changed();
    const wanted = [place.thread, place.inspect].filter(Boolean);
    for (const id of [...this.views.keys()]) if (!wanted.includes(id)) this.views.delete(id);
    await Promise.all(wanted.filter((id) => !this.views.has(id)).map((id) => this.load(id)));
    if (this.place !== place) return;
    this.refollow();
    if (place.thread) this.refreshAsked();
    else this.approvals = this.questions = [];
    this.changed();
  }

  async load(id) {
    try {
      const view = await api.show(id, { last: pageSize });
      const seq = parseInt(view.cursor ?? "0", 10);
      view.events = (await api.events(id, { after: Math.max(0, seq - 400), limit: 1000 })).events;
      this.views.set(id, fromView(view));
      this.threads.set(id, view.thread);
      this.missing.delete(id);
      // The tree, as the list holds the newest threads only.
      api.threads({ root: view.thread.rootThreadId, all: true, limit: 1000 }).then((list) => {
        for (const t of list.threads) if (!this.newer(t)) this.threads.set(t.id, t);
        this.changed();
      }, () => {});
    } catch (err) {
      if (err.status === 401) return this.expired();
      this.missing.set(id, err.message);
    }
    this.changed();
  }

  listed(list) {
    for (const t of list.threads) if (!this.newer(t)) this.threads.set(t.id, t);
    this.older = list.next ?? "";
    this.changed();
  }

  async loadOlder() {
    const list = await this.act((a) => a.threads({ limit: 100, after: this.older }));
    if (list) this.listed(list);
  }

  // sleep ends the stream of a page that nobody sees: the others need it.
  sleep() {
    this.stop();
    this.asleep = true;
  }

  wake() {
    if (!this.asleep) return;
    this.asleep = false;
    this.refollow();
    if (this.place.thread) this.refreshAsked();
  }

  newer(t) {
    const known = this.threads.get(t.id);
    return known && Date.parse(known.updatedAt) > Date.parse(t.updatedAt);
  }

  expired() {
    this.me = null;
    this.stop();
    this.changed();
  }

  refollow() {
    this.stop();
    if (!this.me || this.asleep) return;
    const cursors = new Map([...this.views].map(([id, v]) => [id, v.cursor]));
    this.stop = follow(cursors, this.list, {
      live: (on) => {
        if (this.live === on) return;
        this.live = on;
        if (!on) this.check();
        this.changed();
      },
      thread: (t) => {
        this.threads.set(t.id, t);
        const v = this.views.get(t.id);
        if (v) this.views.set(t.id, { ...v, thread: t });
        this.changed();
      },
      update: (u) => {
        const v = this.views.get(u.threadId);
        if (!v) return;
        this.views.set(u.threadId, fold(v, u));
        if (u.threadId === this.place.thread && u.event && /approval|question|^done$|^error$|sub_agent_completed/.test(u.event.type)) this.refreshAsked();
        this.changed();
      },
      refused: (err) => this.notice(err),
    });
  }

  // check finds out whether a stream ended because the session did.
  async check() {
    try {
      await api.me();
    } catch (err) {
      if (err.status === 401) this.expired();
    }
  }

  // refreshAsked reads what waits for the person, in the whole tree of the chat.
  refreshAsked() {
    clearTimeout(this.askedTimer);
    this.askedTimer = setTimeout(async () => {
      const id = this.place.thread;
      const [a, q] = await Promise.allSettled([api.approvals(id), api.questions(id)]);
      if (id !== this.place.thread) return;
      if (a.status === "fulfilled") this.approvals = a.value.approvals;
      if (q.status === "fulfilled") this.questions = q.value.questions;
      this.changed();
    }, 50);
  }

  async earlier(id) {
    const v = this.views.get(id);
    if (!v || v.firstSeq <= 1 || v.loading) return;
    v.loading = true;
    try {
      const page = await api.messages(id, { before: v.firstSeq, limit: pageSize, calls: true });
      const now = this.views.get(id);
      if (now) this.views.set(id, { ...prepend(now, page), loading: false });
    } catch (err) {
      v.loading = false;
      this.notice(err);
    }
    this.changed();
  }

  // send answers whether the message is safe with the server.
  async send(text, { images = [], whenBusy = "", agentName = "", id }) {
    const content = images.length ? [...(text ? [{ type: "text", text }] : []), ...images.map((url) => ({ type: "image_url", image_url: { url } }))] : text;
    try {
      const reply = await api.send({
        content, messageId: id, ...(whenBusy && { whenBusy }), ...(agentName && { agent: agentName }),
        ...(this.place.thread ? { threadId: this.place.thread } : {}),
      });
      if (reply.note) this.notice(reply.note);
      if (!this.place.thread) await this.go({ thread: reply.threadId });
      else if (reply.state === "waiting") this.waits(reply, id, content, whenBusy);
      this.refreshAsked();
      return true;
    } catch (err) {
      if (err.status === 401) this.expired();
      this.notice(err);
      return false;
    }
  }

  waits(reply, id, content, whenBusy) {
    const v = this.views.get(reply.threadId);
    if (!v || v.messages.some((m) => m.id === `${reply.turnId}.0`) || v.inbox.some((e) => e.id === id)) return;
    this.views.set(reply.threadId, { ...v, inbox: [...v.inbox, { id, kind: "message", state: "waiting", turnId: reply.turnId, content, whenBusy }] });
    this.changed();
  }

  // act does something that may be refused.
  async act(f) {
    try {
      const done = await f(api);
      if (done?.note) this.notice(done.note);
      return done;
    } catch (err) {
      if (!(err instanceof ApiError)) throw err;
      this.notice(err);
      return null;
    } finally {
      this.refreshAsked();
    }
  }

  async cancel(all) {
    const id = this.place.thread;
    const done = await this.act((a) => a.cancel(id, { all }));
    const v = this.views.get(id);
    if (done && all && v) this.views.set(id, { ...v, inbox: [] });
    this.changed();
  }

  retry() {
    return this.act((a) => a.retry(this.place.thread, newId()));
  }

  async fork(at) {
    const done = await this.act((a) => a.fork(this.place.thread, { at, requestId: newId() }));
    if (done) await this.go({ thread: done.threadId });
  }

  way(id) {
    return way(this.threads, id);
  }
}
