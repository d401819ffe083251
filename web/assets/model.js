// What the page knows, and what a person can do. Views read it and call it; it tells
// them when to draw again.
import { api, ApiError } from "./api.js";
import { follow } from "./follow.js";
import { fold, fromView, prepend, streamOf } from "./thread.js";
import { tasksOf } from "./items.js";
import { needsPerson, unfinished } from "./format.js";
import { read, way, write } from "./route.js";
import { Unread } from "./unread.js";
import { forget } from "./drafts.js";

const pageSize = 80;
const nowhere = { thread: "", inspect: "", tab: "", turn: "" };

// newId is an id for a message or a request: repeating it is safe.
export function newId() {
  const b = crypto.getRandomValues(new Uint8Array(16));
  return "web-" + [...b].map((x) => x.toString(16).padStart(2, "0")).join("");
}

export class Model {
  // changed is told whether only more of a text that is being written is new.
  constructor(changed) {
    this.changed = changed;
    this.me = null;
    this.asked = false; // whether it is known who asks
    this.place = read(location.search);
    this.threads = new Map();
    this.views = new Map(); // thread id -> state
    this.missing = new Map(); // thread id -> why it cannot be shown
    this.tasks = new Map(); // thread id -> its tasks, where a list shows them
    this.agents = [];
    this.asks = []; // what waits for the person in all conversations, oldest first
    this.health = [];
    this.notices = [];
    this.live = false;
    this.list = { since: "" }; // how far the list of threads is known
    this.older = ""; // where the list of older conversations goes on
    this.unread = new Unread();
    this.writers = new Set(); // draw the texts that are being written
    this.stop = () => {};
    addEventListener("popstate", () => this.arrive(read(location.search)));
  }

  async start() {
    const { thread, inspect } = this.place;
    let first;
    try {
      first = await api.open({ thread, inspect });
      this.me = first.me;
    } catch (err) {
      if (err.status !== 401) this.notice(err);
    }
    this.asked = true;
    if (!first) return this.changed();
    this.agents = first.agents;
    this.health = first.health ?? [];
    this.ask(first);
    this.list.since = String(first.since ?? "");
    this.listed(first);
    for (const [id, view] of Object.entries(first.views)) this.take(id, view);
    for (const [id, why] of Object.entries(first.missing ?? {})) this.missing.set(id, why);
    await this.arrive(this.place);
  }

  async login(token) {
    this.me = await api.login(token);
    await this.start();
  }

  async logout() {
    await api.logout();
    forget();
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

  // placed is where a change leads to: another conversation closes the panel.
  placed(change) {
    const other = change.thread !== undefined && change.thread !== this.place.thread;
    return { ...(other ? nowhere : this.place), ...change };
  }

  go(change, { replace } = {}) {
    const place = this.placed(change);
    history[replace ? "replaceState" : "pushState"](null, "", write(place));
    return this.arrive(place);
  }

  // arrive shows a place: loads its threads and follows them.
  async arrive(place) {
    this.place = place;
    this.unread.see(this.threads.get(place.thread));
    this.changed();
    const wanted = this.wanted();
    for (const id of [...this.views.keys()]) if (!wanted.includes(id)) this.views.delete(id);
    await Promise.all(wanted.filter((id) => !this.views.has(id)).map((id) => this.load(id)));
    if (this.place !== place) return;
    this.refollow();
    this.changed();
  }

  wanted() {
    return [...new Set([this.place.thread, this.place.inspect])].filter(Boolean);
  }

  async load(id) {
    try {
      const { views, missing } = await api.views(id, pageSize);
      if (views[id]) this.take(id, views[id]);
      else this.missing.set(id, missing[id]);
    } catch (err) {
      if (err.status === 401) return this.expired();
      this.missing.set(id, err.message);
    }
    this.changed();
  }

  take(id, view) {
    this.views.set(id, fromView(view));
    this.put(view.thread);
    this.missing.delete(id);
    // The tree, as the list holds the newest threads only.
    api.threads({ root: view.thread.rootThreadId, all: true, limit: 1000 }).then((list) => {
      this.put(...list.threads);
      this.changed();
    }, () => {});
  }

  // put keeps the newer of what is told of a thread.
  put(...list) {
    const next = new Map(this.threads); // another one for who compares
    for (const t of list) {
      const known = next.get(t.id);
      if (!known || Date.parse(known.updatedAt) <= Date.parse(t.updatedAt)) next.set(t.id, t);
    }
    this.threads = next;
  }

  listed(list) {
    this.put(...list.threads);
    this.older = list.next ?? "";
    this.changed();
  }

  async loadOlder() {
    const list = await this.act((a) => a.threads({ limit: 100, after: this.older }));
    if (list) this.listed(list);
  }

  // sleep ends the stream of a page that nobody sees: the others need it. One that is to
  // notify goes on.
  sleep() {
    this.stop();
    this.asleep = true;
  }

  wake() {
    this.unread.see(this.threads.get(this.place.thread));
    if (!this.asleep) return;
    this.asleep = false;
    this.refollow();
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
      live: (on) => this.lived(on),
      thread: (t) => this.threadChanged(t),
      asked: (a) => {
        this.ask(a);
        this.changed();
      },
      health: (h) => {
        this.health = h.health;
        this.changed();
      },
      update: (u) => {
        const v = this.views.get(u.threadId);
        if (!v) return;
        if (u.event?.type === "memory_edited") return void this.load(u.threadId).then(() => this.refollow());
        const next = fold(v, u);
        this.views.set(u.threadId, next);
        this.changed(Boolean(u.text && streamOf(v, u.text.messageId) && next.waits === v.waits));
      },
      refused: (err) => this.notice(err),
    });
  }

  lived(on) {
    if (this.live === on) return;
    this.live = on;
    if (!on) this.check();
    // What could not be read while the server was away.
    else if (this.wanted().some((id) => this.missing.has(id) && !this.views.has(id))) this.arrive(this.place);
    this.changed();
  }

  threadChanged(t) {
    this.put(t);
    const v = this.views.get(t.id);
    // The list tells the settings of a thread in short.
    if (v) this.views.set(t.id, { ...v, thread: { ...t, config: v.thread.config } });
    if (t.id === this.place.thread && !document.hidden) this.unread.see(t);
    for (const id of [t.id, t.parentThreadId]) if (this.tasks.has(id) && !this.views.has(id)) this.loadTasks(id);
    this.changed();
  }

  // check finds out whether a stream ended because the session did.
  async check() {
    try {
      await api.me();
    } catch (err) {
      if (err.status === 401) this.expired();
    }
  }

  // ask takes what waits for the person.
  ask({ approvals = [], questions = [] }) {
    const list = [...approvals.map((a) => ({ ...a, kind: "approval", id: a.approvalId })), ...questions.map((q) => ({ ...q, kind: "question", id: q.questionId }))];
    this.asks = list.sort((a, b) => (a.createdAt ?? "").localeCompare(b.createdAt ?? ""));
  }

  // asksOf are those of a conversation with all below it.
  asksOf(root) {
    return this.asks.filter((a) => a.rootThreadId === root);
  }

  // writing has draw called when there is more of a text. Returns how to end that.
  writing(draw) {
    this.writers.add(draw);
    return () => this.writers.delete(draw);
  }

  // streamOf is what is written of a message so far.
  streamOf(id) {
    for (const v of this.views.values()) {
      const s = streamOf(v, id);
      if (s) return s;
    }
  }

  // statusOf is what a conversation does, as a whole: it waits for a person as soon as
  // somebody in it does.
  statusOf(t) {
    if (t.kind !== "main" || needsPerson(t.status)) return t.status;
    const asks = this.asksOf(t.id);
    if (!asks.length) return t.status;
    return asks.some((a) => a.kind === "approval") ? "waiting_for_approval" : "waiting_for_user";
  }

  // below are the sub-agents under a thread, at any depth, by parent.
  below(id) {
    if (this.tree?.of !== this.threads) {
      this.tree = { of: this.threads, by: new Map() };
      for (const t of this.threads.values()) {
        if (t.kind === "main") continue;
        const parent = t.parentThreadId || t.rootThreadId;
        if (!this.tree.by.has(parent)) this.tree.by.set(parent, []);
        this.tree.by.get(parent).push(t);
      }
    }
    const own = this.tree.by.get(id) ?? [];
    return own.flatMap((t) => [t, ...this.below(t.id)]);
  }

  // inBackground are the sub-agents of a conversation that work though its turn is over.
  inBackground(t) {
    return t.openTurnId ? [] : this.below(t.id).filter((c) => unfinished(c.status));
  }

  // tasksIn are the tasks of a thread for a list, or undefined until they are read.
  tasksIn(id) {
    const view = this.views.get(id);
    if (view && view.firstSeq <= 1) {
      const known = this.tasks.get(id);
      if (known?.of === view.turns) return known;
      const list = Object.assign(tasksOf(view), { of: view.turns });
      this.tasks.set(id, list);
      return list;
    }
    if (!this.tasks.has(id)) this.loadTasks(id);
    return this.tasks.get(id);
  }

  // taskOf is the task that a sub-agent works on, where it is known.
  taskOf(id) {
    const fits = (k) => k.subAgentId === id;
    for (const v of this.views.values()) for (const t of v.turns) for (const k of t.tasks.values()) if (fits(k)) return k;
    return this.tasks.get(this.threads.get(id)?.parentThreadId)?.find(fits);
  }

  loadTasks(id) {
    this.reading ??= new Map();
    if (this.reading.has(id)) return;
    if (!this.tasks.has(id)) this.tasks.set(id, undefined);
    const done = setTimeout(async () => {
      this.reading.delete(id);
      try {
        const { tasks } = await api.tasks(id);
        this.tasks.set(id, tasks.filter((t) => t.name !== "tool:ask_user"));
        this.changed();
      } catch {
        this.tasks.delete(id);
      }
    }, 200);
    this.reading.set(id, done);
  }

  // settings reads the settings that a thread runs with.
  async settings(id) {
    const read = await this.act((a) => a.show(id, { last: 1 }));
    const v = this.views.get(id);
    if (!read || !v) return;
    this.views.set(id, { ...v, thread: { ...v.thread, config: read.thread.config } });
    this.changed();
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
  async send(text, { images = [], whenBusy = "", agentName = "", id, to = this.place.thread ? { threadId: this.place.thread } : {} }) {
    const content = images.length ? [...(text ? [{ type: "text", text }] : []), ...images.map((url) => ({ type: "image_url", image_url: { url } }))] : text;
    try {
      const reply = await api.send({ content, messageId: id, ...(whenBusy && { whenBusy }), ...(agentName && { agent: agentName }), ...to });
      if (reply.note) this.notice(reply.note);
      if (this.place.thread !== reply.threadId) await this.go({ thread: reply.threadId });
      else if (reply.state === "waiting") this.waits(reply, id, content, whenBusy);
      return true;
    } catch (err) {
      if (err.status === 401) this.expired();
      this.notice(err);
      return false;
    }
  }

  waits(reply, id, content, whenBusy) {
    const v = this.views.get(reply.threadId);
    if (!v || v.turns.some((t) => t.messages.some((m) => m.id === `${reply.turnId}.0`)) || v.inbox.some((e) => e.id === id)) return;
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
    }
  }

  // settle decides or answers what waits for the person.
  async settle(ask, f) {
    const done = await this.act(f);
    if (done) {
      this.asks = this.asks.filter((a) => a.id !== ask.id);
      this.changed();
    }
    return done;
  }

  async cancel(all) {
    const id = this.place.thread;
    const done = await this.act((a) => a.cancel(id, { all }));
    const v = this.views.get(id);
    if (done && all && v) this.views.set(id, { ...v, inbox: [] });
    this.changed();
  }

  // stopAgent ends the work of one sub-agent with all below it.
  stopAgent(id) {
    return this.act((a) => a.cancel(id, { all: true }));
  }

  // retryAgent has the orchestrator go on with an agent that failed: only its parent can.
  // What a model wrote is not said again in the person's name.
  retryAgent(task) {
    const name = task.name.replace(/^agent:/, "");
    const id = (task.subAgentId ?? "").split(":")[2];
    return this.send(`Try this again with the same agent, ${name} (resume ${id}).`, { id: newId() });
  }

  retry() {
    return this.act((a) => a.retry(this.place.thread, newId()));
  }

  async fork(at) {
    const done = await this.act((a) => a.fork(this.place.thread, { at, requestId: newId() }));
    if (done) await this.go({ thread: done.threadId });
    return done;
  }

  // sendAgain goes on in a new conversation, as if the message had been written so.
  async sendAgain(m, text, images) {
    const v = this.views.get(this.place.thread);
    const all = v.turns.flatMap((t) => t.messages);
    const before = all[all.findIndex((x) => x.id === m.id) - 1];
    let to = { sessionId: v.thread.sessionId, conversationId: `again-${newId().slice(-8)}` };
    if (before && before.role !== "system") {
      const forked = await this.act((a) => a.fork(this.place.thread, { at: before.id, requestId: newId() }));
      if (!forked) return false;
      to = { threadId: forked.threadId };
    }
    return this.send(text, { images, id: newId(), to });
  }

  async rename(id, topic) {
    const t = await this.act((a) => a.rename(id, topic));
    if (t) this.threadChanged({ ...this.threads.get(id), ...t });
    return t;
  }

  async remove(id) {
    const done = await this.act((a) => a.remove(id));
    if (done === null) return;
    for (const t of [...this.below(id), { id }]) this.threads.delete(t.id);
    this.threads = new Map(this.threads);
    this.views.delete(id);
    if (this.place.thread === id) await this.go({ thread: "" }, { replace: true });
    this.changed();
  }

  way(id) {
    return way(this.threads, id);
  }
}
