// What is known of one thread, turn by turn: a view as the API gives it, kept up to
// date by the updates of its stream. fold is pure and repeatable: an update that the view
// has already changes nothing, and what an update does not touch stays the same object.
// Knows no browser: tested by node.

import { unfinished } from "./format.js";

const bytes = new TextEncoder();

// fromView makes the state of a thread.
export function fromView(view) {
  const s = {
    thread: view.thread,
    turns: [], // oldest first, see newTurn
    inbox: view.inbox ?? [],
    waits: new Map(), // thread id -> when its model call is made again, if it waits
    cursor: view.cursor ?? "0",
    ui: view.ui ?? "",
    trouble: view.trouble ?? "",
    model: "", // the one that answered last
    firstSeq: 1,
    aside: [], // events of turns that are not loaded
  };
  addMessages(s, view.messages ?? []);
  s.firstSeq = firstSeq(s);
  // What the events tell is older than the rows.
  s.aside = view.events ?? [];
  applyAside(s);
  for (const t of s.turns) t.reply = null;
  s.waits = new Map((view.waits ?? []).map((w) => [w.threadId, w]));
  addRows(s, view, () => true);
  if (view.pending) {
    const t = turn(s, view.pending.turnId);
    t.reply = view.pending;
    t.streams.delete(view.pending.id);
  }
  return s;
}

const newTurn = (id) => ({
  id,
  messages: [],
  streams: new Map(), // message id -> {attempt, text, reasoning, size}
  calls: new Map(), // call id -> call
  tasks: new Map(), // task id -> task
  asks: new Map(), // question id -> {text, agent, task, answer, …}
  actions: new Map(), // task id -> what its agent did last
  reply: null, // the stored reply whose round is not saved yet
  end: null, // the done or error event
  notes: [], // what happened to the machines meanwhile
  cuts: [], // what the model did not see, and why its answer is not whole
});

// turn is a copy of the turn, in its place, to be changed; a new one is the last.
function turn(s, id) {
  let i = s.turns.length - 1;
  while (i >= 0 && s.turns[i].id !== id) i--;
  if (i < 0) i = s.turns.push(newTurn(id)) - 1;
  const t = s.turns[i];
  return (s.turns[i] = { ...t, streams: new Map(t.streams), calls: new Map(t.calls), tasks: new Map(t.tasks), asks: new Map(t.asks), actions: new Map(t.actions) });
}

// holder is the turn, to be changed, that has a key in one of its maps; else the one named.
function holder(s, id, map, key) {
  const t = s.turns.find((t) => t.id === id);
  if (t?.[map].has(key)) return turn(s, id);
  const other = s.turns.findLast((t) => t[map].has(key));
  return turn(s, other?.id ?? id);
}

const firstSeq = (s) => s.turns.find((t) => t.messages.length)?.messages[0].seq ?? 1;

// prepend adds an earlier page of messages with their calls and tasks. What the
// thread's stream has told to be over meanwhile stays so.
export function prepend(state, page) {
  const s = { ...state, turns: state.turns.slice() };
  addMessages(s, page.messages);
  s.firstSeq = firstSeq(s);
  s.aside = [...s.aside, ...(page.events ?? [])];
  applyAside(s);
  addRows(s, page, (known, row) => !known || unfinished(known.status) || !unfinished(row.status));
  return s;
}

// applyAside applies the events of the turns that are loaded, and keeps the others.
function applyAside(s) {
  const open = s.thread.openTurnId;
  const here = (e) => !e.turnId || e.turnId === open || s.turns.some((t) => t.id === e.turnId);
  for (const e of s.aside) if (here(e)) applyEvent(s, e);
  s.aside = s.aside.filter((e) => !here(e));
}

function addRows(s, rows, wins) {
  for (const c of rows.toolCalls ?? []) {
    const t = holder(s, c.turnId, "calls", c.id);
    if (wins(t.calls.get(c.id), c)) t.calls.set(c.id, c);
  }
  for (const k of rows.tasks ?? []) {
    const t = holder(s, s.turns.findLast((t) => t.calls.has(callOf(k.id)))?.id ?? turnOf(k.triggerMessageId), "tasks", k.id);
    if (wins(t.tasks.get(k.id), k)) t.tasks.set(k.id, k);
  }
}

// fold applies an update of the thread's stream.
export function fold(state, update) {
  const s = { ...state, turns: state.turns.slice(), waits: state.waits, cursor: update.cursor };
  if (update.text) {
    applyText(s, update.text);
    if (s.waits.has(s.thread.id)) {
      s.waits = new Map(s.waits);
      s.waits.delete(s.thread.id);
    }
  }
  if (update.messages?.length) addMessages(s, update.messages);
  if (update.event) {
    s.waits = new Map(s.waits);
    applyEvent(s, update.event);
  }
  return s;
}

// addMessages puts messages in order of seq; one with a known id replaces it.
function addMessages(s, messages) {
  const groups = new Map();
  for (const m of messages) {
    if (!groups.has(m.turnId)) groups.set(m.turnId, []);
    groups.get(m.turnId).push(m);
  }
  for (const [id, list] of groups) {
    const t = turn(s, id);
    const known = new Map(t.messages.map((m) => [m.id, m]));
    for (const m of list) {
      known.set(m.id, m);
      t.streams.delete(m.id);
      if (t.reply && (t.reply.id === m.id || sameCalls(t.reply, m))) t.reply = null;
    }
    t.messages = [...known.values()].sort((a, b) => a.seq - b.seq);
  }
  if (s.turns.some((t, i) => i && first(t) < first(s.turns[i - 1]))) s.turns.sort((a, b) => first(a) - first(b) || 0);
  for (const m of messages) {
    // A message that came by its own id is no longer waiting.
    if (m.role === "user") s.inbox = s.inbox.filter((e) => `${e.turnId}.0` !== m.id && (!m.messageId || e.id !== m.messageId));
  }
}

const first = (t) => t.messages[0]?.seq ?? Infinity;
const sameCalls = (a, b) => Boolean(a.tool_calls?.length) && a.tool_calls[0].id === b.tool_calls?.[0]?.id;

// applyText adds a piece of streamed text. Its offset tells whether it is new.
function applyText(s, p) {
  const had = s.turns.findLast((t) => t.id === p.turnId);
  if (had?.messages.some((m) => m.id === p.messageId && !m.partial) || had?.reply?.id === p.messageId || had?.end) return;
  let old = had?.streams.get(p.messageId);
  if (old && p.attempt < old.attempt) return;
  const again = Boolean(old && p.attempt > old.attempt && (old.text || old.again));
  if (!old || p.attempt > old.attempt) old = { again, attempt: p.attempt, text: "", size: 0, reasoning: "", thought: 0 };
  const next = { ...old };
  if (p.text && p.offset === old.size) {
    next.text += p.text;
    next.size += bytes.encode(p.text).length;
  }
  if (p.reasoning && (p.reasoningOffset ?? 0) === old.thought) {
    next.reasoning += p.reasoning;
    next.thought += bytes.encode(p.reasoning).length;
  }
  turn(s, p.turnId).streams.set(p.messageId, next);
}

// What is told at the end of a turn of which something is not whole.
const notWhole = new Set(["answer_cut", "message_shortened", "window_too_small", "context_truncated", "tool_call_as_text"]);

// handle says what an event changes.
const handle = {
  warning(s, e, d) {
    if (d.code === "model_wait") s.waits.set(d.wait.threadId, d.wait);
    if (d.code === "worker_lost") {
      const t = turn(s, e.turnId);
      if (!t.notes.some((n) => n.seq === e.seq)) t.notes = [...t.notes, { seq: e.seq, at: e.at, text: d.message }];
    }
    if (!notWhole.has(d.code)) return;
    const t = turn(s, e.turnId);
    if (!t.cuts.includes(d.message)) t.cuts = [...t.cuts, d.message];
  },
  stream_finish(s, e, d) {
    s.model = d.model ?? s.model;
    s.waits.delete(s.thread.id);
  },
  tool_calls(s, e, d) {
    const t = turn(s, e.turnId);
    for (const c of d.toolCalls ?? []) if (!t.calls.has(c.id)) t.calls.set(c.id, call(e, c.id, c.function.name, c.function.arguments, "pending"));
    if (t.messages.some((m) => sameCalls(m, { tool_calls: d.toolCalls }))) return;
    // What was streamed of the reply is its text: it is shown once.
    const [id, text] = [...t.streams].at(-1) ?? [`pending:${e.turnId}:${e.seq}`, {}];
    t.streams.delete(id);
    t.reply = { id, role: "assistant", content: text.text || null, reasoning: text.reasoning, tool_calls: d.toolCalls, turnId: e.turnId, seq: 0, timestamp: e.at };
  },
  tool_call(s, e, d) {
    const t = holder(s, e.turnId, "calls", d.toolCallId);
    const old = t.calls.get(d.toolCallId);
    const status = d.gate ? "pending" : "running"; // a gated one waits to be asked for
    if (!old || old.status === "pending") t.calls.set(d.toolCallId, { ...(old ?? call(e, d.toolCallId, d.intent, d.arguments)), status, subAgentThreadId: d.sub_agent_thread_id ?? old?.subAgentThreadId });
    const id = taskOf(d.toolCallId);
    if (t.tasks.has(id) || (s.thread.kind !== "main" && !d.sub_agent_thread_id)) return;
    const agent = d.arguments?.agent ?? (d.sub_agent_thread_id ?? "").split(":")[1];
    t.tasks.set(id, {
      id, type: d.sub_agent_thread_id ? "agent" : "tool", threadId: e.threadId, status,
      name: d.sub_agent_thread_id ? `agent:${agent}` : `tool:${d.intent}`,
      instruction: d.sub_agent_thread_id ? (d.arguments?.task ?? "") : JSON.stringify(d.arguments ?? {}), description: d.arguments?.description,
      subAgentId: d.sub_agent_thread_id, triggerMessageId: trigger(t), createdAt: e.at, updatedAt: e.at,
    });
  },
  tool_response(s, e, d) {
    const t = holder(s, e.turnId, "calls", d.toolCallId);
    const old = t.calls.get(d.toolCallId) ?? call(e, d.toolCallId, d.name, undefined);
    // A long result is told by its beginning and its size only.
    const result = d.result ?? d.preview ?? (d.resultRef ? undefined : old.result);
    t.calls.set(d.toolCallId, { ...old, status: d.status, result, size: d.size, whole: d.resultRef ? false : undefined, errorReason: d.errorReason, durationMs: d.durationMs, updatedAt: e.at });
    const task = t.tasks.get(taskOf(d.toolCallId));
    const background = task?.type === "agent" && parsed(old.args).background === true && d.status === "success";
    // How an agent ended was told before, in fewer words than the model gets.
    const told = task?.type === "agent" && (task.error || !unfinished(task.status));
    if (task && !background) t.tasks.set(task.id, { ...task, status: taskStatus(d.status), result: d.status === "success" ? result : task.result, error: d.status === "success" ? "" : told ? task.error : result, updatedAt: unfinished(task.status) ? e.at : task.updatedAt });
  },
  tool_approval_required(s, e, d) {
    if (!d.toolCalls?.length) return;
    const t = holder(s, e.turnId, "calls", d.toolCalls[0].id);
    for (const c of d.toolCalls) {
      const old = t.calls.get(c.id);
      if (old && unfinished(old.status)) t.calls.set(c.id, { ...old, status: "awaiting_approval" });
      const task = t.tasks.get(taskOf(c.id));
      if (task?.status === "pending") t.tasks.set(task.id, { ...task, status: "waiting" });
    }
  },
  tool_approval_response(s, e, d) {
    for (const id of d.approvedCalls ?? []) {
      const t = holder(s, e.turnId, "calls", id);
      const old = t.calls.get(id);
      const own = d.arguments?.[id]; // a person's
      if (old?.status === "awaiting_approval") t.calls.set(id, { ...old, status: "running", ...(own && { args: own, gate: "edited" }) });
      const task = t.tasks.get(taskOf(id));
      if (task?.status === "waiting") t.tasks.set(task.id, { ...task, status: "running", ...(own && task.type === "tool" && { instruction: JSON.stringify(own) }) });
      for (const [k, a] of t.actions) if (own && a.id === id) t.actions.set(k, { ...a, args: own });
    }
  },
  question_asked(s, e, d) {
    // Between two turns a background agent asks: it stands with the last one.
    const t = turn(s, e.turnId || s.turns.at(-1)?.id || "");
    if (!t.asks.has(d.questionId)) t.asks.set(d.questionId, { ...d, at: e.at, state: "open" });
  },
  question_answered(s, e, d) {
    const t = holder(s, e.turnId || s.turns.at(-1)?.id || "", "asks", d.questionId);
    const old = t.asks.get(d.questionId);
    if (old) t.asks.set(d.questionId, { ...old, state: d.state, answer: d.answer, answeredBy: d.answeredBy, answeredAt: e.at });
  },
  sub_agent_tool_call(s, e, d) {
    const t = holder(s, e.turnId, "tasks", taskOf(d.parentToolCallId ?? ""));
    t.actions.set(taskOf(d.parentToolCallId ?? ""), { id: d.toolCallId, toolName: d.toolName, args: d.arguments, at: e.at, status: "running" });
  },
  sub_agent_tool_result(s, e, d) {
    const t = holder(s, e.turnId, "tasks", taskOf(d.parentToolCallId ?? ""));
    const old = t.actions.get(taskOf(d.parentToolCallId ?? ""));
    if (old?.id === d.toolCallId) t.actions.set(taskOf(d.parentToolCallId ?? ""), { ...old, status: d.status });
  },
  sub_agent_completed(s, e, d) {
    s.waits.delete(d.sub_agent_thread_id);
    const id = taskOf(d.parentToolCallId ?? "");
    const t = holder(s, e.turnId, "tasks", id);
    const task = t.tasks.get(id);
    if (!task) return;
    const ok = d.status === "completed";
    t.tasks.set(id, { ...task, status: ok ? "success" : d.status, error: ok ? "" : d.result || task.error, reason: d.reason, updatedAt: unfinished(task.status) ? e.at : task.updatedAt });
  },
  done: ended,
  error: ended,
};

function ended(s, e) {
  s.waits.delete(s.thread.id);
  Object.assign(turn(s, e.turnId), { end: e, reply: null, streams: new Map() });
}

function applyEvent(s, e) {
  handle[e.type]?.(s, e, e.data ?? {});
}

const call = (e, id, toolName, args, status = "running") => ({ id, threadId: e.threadId, turnId: e.turnId, toolName, args, status, createdAt: e.at, updatedAt: e.at });
export const taskOf = (callId) => callId.replace(/^call_/, "task_");
export const callOf = (taskId) => taskId.replace(/^task_/, "call_");
const turnOf = (messageId) => messageId.replace(/\.[^.]*$/, "");
const taskStatus = (s) => (s === "success" ? "success" : s === "aborted" || s === "denied" ? "cancelled" : "failed");

export function parsed(args) {
  if (typeof args !== "string") return args ?? {};
  try {
    return JSON.parse(args) ?? {};
  } catch {
    return {};
  }
}

// trigger is the latest message of a user in a turn.
const trigger = (t) => t.messages.findLast((m) => m.role === "user")?.id ?? `${t.id}.0`;

// streamOf is what is written of a message so far, while it is.
export const streamOf = (s, id) => s.turns.findLast((t) => t.streams.has(id))?.streams.get(id);

// waiting are the model calls that are still to be made at a time to come.
export const waiting = (s, now) => [...s.waits.values()].filter((w) => Date.parse(w.until) > now);
