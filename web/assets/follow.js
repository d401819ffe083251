// What the page is told without asking: a stream from the server, or, while there can
// be none, what is new every moment.
import { ApiError } from "./api.js";

const patience = 5_000; // a stream that is not open by then is not waited for
const pollEvery = 700;
const busyFor = 5_000; // how long to poll before a stream is tried again,
const deafFor = 60_000; // and where none came through, as behind some proxies

// follow keeps up with the threads of cursors (id -> cursor, kept up to date here) and
// the list of threads (list.since is kept likewise). on has update(u), thread(t),
// asked({approvals, questions}), health({health}), live(bool) and refused(error). Returns how to stop it. Windows of one browser share
// six connections, so the server lets few of them stream: the others poll. Each goes
// on from its own cursors whichever way it was told, so nothing is lost or doubled.
export function follow(cursors, list, on) {
  let source;
  let timer; // for what comes next, if it is not a message
  let wait = 500;
  let stopped = false;
  const abort = new AbortController();

  const address = (once) => {
    const ids = [...cursors.keys()];
    const q = new URLSearchParams([["threads", "true"], ...ids.map((id) => ["thread", id])]);
    if (ids.length) q.set("from", ids.map((id) => cursors.get(id)).join(","));
    if (list.since) q.set("since", list.since);
    if (once) q.set("once", "true");
    return `/api/v1/follow?${q}`;
  };
  const later = (f, ms) => {
    clearTimeout(timer);
    if (!stopped) timer = setTimeout(f, ms);
  };
  const take = {
    thread: (t) => on.thread(t),
    asked: (a) => on.asked(a),
    health: (h) => on.health(h),
    listed: (l) => (list.since = l.since),
    update: (u) => {
      cursors.set(u.threadId, u.cursor);
      on.update(u);
    },
    failure: (e) => {
      again();
      on.refused(new ApiError(500, e));
    },
    busy: () => poll(busyFor),
    end: () => again(),
  };

  const open = () => {
    source = new EventSource(address(false));
    later(() => poll(deafFor), patience);
    for (const [name, f] of Object.entries(take)) {
      source.addEventListener(name, (e) => {
        clearTimeout(timer);
        if (name !== "busy") on.live(true);
        f(JSON.parse(e.data));
      });
    }
    source.addEventListener("open", () => {
      wait = 500;
      clearTimeout(timer);
    });
    source.onerror = () => {
      on.live(false);
      // The browser comes back by itself with the last event id, unless it was answered
      // with an error.
      if (source.readyState === EventSource.CLOSED) again();
    };
  };
  const again = () => {
    source.close();
    if (stopped) return;
    on.live(false);
    later(open, wait);
    wait = Math.min(wait * 2, 10_000);
  };
  const poll = async (ms) => {
    source.close();
    const until = Date.now() + ms;
    const next = async () => {
      try {
        const r = await fetch(address(true), { signal: abort.signal });
        if (!r.ok) throw new Error(`the server answered ${r.status}`);
        const told = events(await r.text());
        if (stopped) return;
        for (const [name, data] of told) {
          if (name === "failure") return take.failure(data);
          if (name !== "end") take[name]?.(data);
        }
        if (told.at(-1)?.[0] !== "end") throw new Error("the answer was cut off");
      } catch {
        if (!stopped) again();
        return;
      }
      wait = 500;
      on.live(true);
      if (Date.now() < until) later(next, pollEvery);
      else open();
    };
    await next();
  };
  open();
  return () => {
    stopped = true;
    clearTimeout(timer);
    abort.abort();
    source.close();
  };
}

// events reads server-sent events: [name, data] of each.
export function events(text) {
  const out = [];
  for (const block of text.split("\n\n")) {
    const fields = new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
    if (fields.has("event")) out.push([fields.get("event"), JSON.parse(fields.get("data") ?? "null")]);
  }
  return out;
}
