// Where a person is, as an address and back. Knows no browser: tested by node.

// tabs are those of the panel; without one it shows the agent's work.
export const tabs = ["agent", "trace", "raw"];

// read makes a place of an address's query.
export function read(search) {
  const q = new URLSearchParams(search);
  return { thread: q.get("thread") ?? "", inspect: q.get("inspect") ?? "", tab: tabs.includes(q.get("tab")) ? q.get("tab") : "", turn: q.get("turn") ?? "" };
}

// write makes the address of a place.
export function write(place) {
  const q = new URLSearchParams();
  for (const k of ["thread", "inspect", "tab", "turn"]) if (place[k]) q.set(k, place[k]);
  const s = q.toString().replaceAll("%2F", "/").replaceAll("%3A", ":");
  return s ? `/?${s}` : "/";
}

// sessions groups threads for the sidebar: sessions by newest activity, in each its
// conversations, under each its sub-agents as a tree in order of creation.
export function sessions(threads) {
  const children = new Map();
  const bySession = new Map();
  for (const t of threads) {
    if (t.kind === "main") {
      if (!bySession.has(t.sessionId)) bySession.set(t.sessionId, []);
      bySession.get(t.sessionId).push(t);
    } else {
      const parent = t.parentThreadId || t.rootThreadId;
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(t);
    }
  }
  const newest = (a, b) => Date.parse(b.updatedAt) - Date.parse(a.updatedAt) || (a.id < b.id ? -1 : 1);
  const oldest = (a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt) || (a.id < b.id ? -1 : 1);
  const below = (id) => (children.get(id) ?? []).sort(oldest).map((thread) => ({ thread, children: below(thread.id) }));
  return [...bySession].map(([id, list]) => ({ id, chats: list.sort(newest).map((thread) => ({ thread, children: below(thread.id) })) }))
    .sort((a, b) => newest(a.chats[0].thread, b.chats[0].thread));
}

// way is the path from the root to a thread, as far as the threads are known.
export function way(threads, id) {
  const out = [];
  for (let t = threads.get(id); t && out.length < 32; t = threads.get(t.parentThreadId)) out.unshift(t);
  return out;
}

// label names a thread for people.
export function label(t) {
  if (t.kind === "subagent") return t.agentType ?? t.id;
  return t.topic || (t.conversationId && t.conversationId !== "default" ? t.conversationId : t.sessionId);
}
