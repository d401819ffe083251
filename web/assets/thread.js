// What is known of one thread: a view as the API gives it, kept up to date by the
// updates of its stream. fold is pure and repeatable: an update that the view has
// already changes nothing. Knows no browser: tested by node.

import { unfinished } from "./format.js";

const bytes = new TextEncoder();

// fromView makes the state of a thread.
export function fromView(view) {
  const s = {
    thread: view.thread,
    messages: [],
    streams: new Map(), // message id -> {attempt, text, reasoning, size}
    calls: new Map(), // call id -> call
    tasks: new Map(), // task id -> task
    inbox: view.inbox ?? [],
    ends: new Map(), // turn id -> its done or error event
    cuts: new Map(), // turn id -> what the model did not see, and why its answer is not whole
    replies: new Map(), // turn id -> the stored reply whose round is not saved yet
    waits: new Map(), // thread id -> when its model call is made again, if it waits
    cursor: view.cursor ?? "0",
    ui: view.ui ?? "",
    trouble: view.trouble ?? "",
    model: "", // the one that answered last
    firstSeq: 1,
  };
  addMessages(s, view.messages ?? []);
  s.firstSeq = s.messages[0]?.seq ?? 1;
  // What the events tell is older than the rows.
  for (const e of view.events ?? []) applyEvent(s, e);
  s.replies.clear();
  s.waits = new Map((view.waits ?? []).map((w) => [w.threadId, w]));
  for (const c of view.toolCalls ?? []) s.calls.set(c.id, c);
  for (const t of view.tasks ?? []) s.tasks.set(t.id, t);
  if (view.pending) s.replies.set(view.pending.turnId, view.pending);
  return s;
}

// prepend adds an earlier page of messages with their calls and tasks. What the
// thread's stream has told to be over meanwhile stays so.
export function prepend(state, page) {
  const s = { ...state, calls: new Map(state.calls), tasks: new Map(state.tasks) };
  s.messages = state.messages.slice();
  addMessages(s, page.messages);
  s.firstSeq = s.messages[0]?.seq ?? 1;
  const add = (known, rows) => {
    for (const r of rows ?? []) if (!known.has(r.id) || unfinished(known.get(r.id).status) || !unfinished(r.status)) known.set(r.id, r);
  };
  add(s.calls, page.toolCalls);
  add(s.tasks, page.tasks);
  return s;
}

// fold applies an update of the thread's stream.
export function fold(state, update) {
  const s = { ...state, cursor: update.cursor };
  if (update.text) {
    s.streams = new Map(state.streams);
    applyText(s, update.text);
    s.waits = new Map(state.waits);
    s.waits.delete(s.thread.id);
  }
  if (update.messages?.length) {
    s.messages = state.messages.slice();
    addMessages(s, update.messages);
    s.streams = new Map(s.streams);
    s.replies = new Map(state.replies);
    for (const m of update.messages) {
      s.streams.delete(m.id);
      if (s.replies.get(m.turnId)?.id === m.id) s.replies.delete(m.turnId);
    }
  }
  if (update.event) {
    for (const k of ["calls", "tasks", "ends", "cuts", "replies", "waits"]) s[k] = new Map(s[k]);
    applyEvent(s, update.event);
  }
  return s;
}

// addMessages puts messages in order of seq; one with a known id replaces it.
function addMessages(s, messages) {
  const at = new Map(s.messages.map((m, i) => [m.id, i]));
  let sorted = true;
  for (const m of messages) {
    if (at.has(m.id)) {
      s.messages[at.get(m.id)] = m;
      continue;
    }
    at.set(m.id, s.messages.length);
    sorted &&= !s.messages.length || s.messages.at(-1).seq <= m.seq;
    s.messages.push(m);
  }
  if (!sorted) s.messages.sort((a, b) => a.seq - b.seq);
  for (const m of messages) {
    // A message that came by its own id is no longer waiting.
    if (m.role === "user") s.inbox = s.inbox.filter((e) => `${e.turnId}.0` !== m.id && (!m.messageId || e.id !== m.messageId));
  }
}

// applyText adds a piece of streamed text. Its offset tells whether it is new.
function applyText(s, t) {
  if (s.messages.some((m) => m.id === t.messageId && !m.partial)) return;
  let old = s.streams.get(t.messageId);
  if (old && t.attempt < old.attempt) return;
  const again = Boolean(old && t.attempt > old.attempt && (old.text || old.again));
  if (!old || t.attempt > old.attempt) old = { again, attempt: t.attempt, turnId: t.turnId, text: "", size: 0, reasoning: "", thought: 0 };
  const next = { ...old };
  if (t.text && t.offset === old.size) {
    next.text += t.text;
    next.size += bytes.encode(t.text).length;
  }
  if (t.reasoning && (t.reasoningOffset ?? 0) === old.thought) {
    next.reasoning += t.reasoning;
    next.thought += bytes.encode(t.reasoning).length;
  }
  s.streams.set(t.messageId, next);
}

// What is told at the end of a turn of which something is not whole.
const notWhole = new Set(["answer_cut", "message_shortened", "window_too_small", "context_truncated", "tool_call_as_text"]);

function applyEvent(s, e) {
  const d = e.data ?? {};
  switch (e.type) {
    case "warning":
      if (d.code === "model_wait") s.waits.set(d.wait.threadId, d.wait);
      if (notWhole.has(d.code) && !s.cuts.get(e.turnId)?.includes(d.message)) s.cuts.set(e.turnId, [...(s.cuts.get(e.turnId) ?? []), d.message]);
      return;
    case "stream_finish":
      s.model = d.model ?? s.model;
      s.waits.delete(s.thread.id);
      return;
    case "tool_calls":
      s.replies.set(e.turnId, { id: `pending:${e.turnId}:${e.seq}`, role: "assistant", content: null, tool_calls: d.toolCalls, turnId: e.turnId, seq: 0, timestamp: e.at });
      for (const c of d.toolCalls ?? []) {
        if (!s.calls.has(c.id)) s.calls.set(c.id, call(e, c.id, c.function.name, c.function.arguments, "pending"));
      }
      return;
    case "tool_call": {
      const old = s.calls.get(d.toolCallId);
      const status = d.gate ? "pending" : "running"; // a gated one waits to be asked for
      if (!old || old.status === "pending") {
        s.calls.set(d.toolCallId, { ...(old ?? call(e, d.toolCallId, d.intent, d.arguments)), status, subAgentThreadId: d.sub_agent_thread_id ?? old?.subAgentThreadId });
      }
      if (s.thread.kind !== "main" && !d.sub_agent_thread_id) return;
      const id = taskOf(d.toolCallId);
      if (s.tasks.has(id)) return;
      const agentName = d.arguments?.agent ?? (d.sub_agent_thread_id ?? "").split(":")[1];
      s.tasks.set(id, {
        id, type: d.sub_agent_thread_id ? "agent" : "tool", threadId: e.threadId, status,
        name: d.sub_agent_thread_id ? `agent:${agentName}` : `tool:${d.intent}`,
        instruction: d.sub_agent_thread_id ? (d.arguments?.task ?? "") : JSON.stringify(d.arguments ?? {}),
        subAgentId: d.sub_agent_thread_id, triggerMessageId: triggerOf(s, e.turnId), createdAt: e.at, updatedAt: e.at,
      });
      return;
    }
    case "tool_response": {
      const old = s.calls.get(d.toolCallId) ?? call(e, d.toolCallId, d.name, undefined);
      s.calls.set(d.toolCallId, { ...old, status: d.status, result: d.result ?? old.result, errorReason: d.errorReason, durationMs: d.durationMs, updatedAt: e.at });
      const task = s.tasks.get(taskOf(d.toolCallId));
      const background = task?.type === "agent" && old.args && parsed(old.args).background === true && d.status === "success";
      if (task && !background) s.tasks.set(task.id, { ...task, status: taskStatus(d.status), result: d.status === "success" ? d.result : task.result, error: d.status === "success" ? "" : d.result, updatedAt: e.at });
      return;
    }
    case "tool_approval_required":
      for (const c of d.toolCalls ?? []) {
        const old = s.calls.get(c.id);
        if (old && (old.status === "pending" || old.status === "running")) s.calls.set(c.id, { ...old, status: "awaiting_approval" });
        const task = s.tasks.get(taskOf(c.id));
        if (task?.status === "pending") s.tasks.set(task.id, { ...task, status: "waiting" });
      }
      return;
    case "tool_approval_response":
      for (const id of d.approvedCalls ?? []) {
        const old = s.calls.get(id);
        if (old?.status === "awaiting_approval") s.calls.set(id, { ...old, status: "running" });
        const task = s.tasks.get(taskOf(id));
        if (task?.status === "waiting") s.tasks.set(task.id, { ...task, status: "running" });
      }
      return;
    case "sub_agent_completed": {
      s.waits.delete(d.sub_agent_thread_id);
      const task = s.tasks.get(taskOf(d.parentToolCallId ?? ""));
      if (task) s.tasks.set(task.id, { ...task, status: d.status === "completed" ? "success" : d.status, updatedAt: e.at, durationMs: d.durationMs });
      return;
    }
    case "done":
    case "error":
      s.ends.set(e.turnId, e);
      s.waits.delete(s.thread.id);
      s.replies.delete(e.turnId);
      s.streams = new Map([...s.streams].filter(([, v]) => v.turnId !== e.turnId));
  }
}

const call = (e, id, toolName, args, status = "running") => ({ id, threadId: e.threadId, turnId: e.turnId, toolName, args, status, createdAt: e.at, updatedAt: e.at });
const taskOf = (callId) => callId.replace(/^call_/, "task_");
const taskStatus = (s) => (s === "success" ? "success" : s === "aborted" || s === "denied" ? "cancelled" : "failed");

function parsed(args) {
  if (typeof args !== "string") return args ?? {};
  try {
    return JSON.parse(args) ?? {};
  } catch {
    return {};
  }
}

// triggerOf is the latest message of a user in a turn.
function triggerOf(s, turnId) {
  for (let i = s.messages.length - 1; i >= 0; i--) {
    const m = s.messages[i];
    if (m.turnId === turnId && m.role === "user") return m.id;
  }
  return `${turnId}.0`;
}

// waiting are the model calls that are still to be made at a time to come.
export const waiting = (s, now) => [...s.waits.values()].filter((w) => Date.parse(w.until) > now);

// chatItems are what the chat shows, in order: the user's messages with the tasks that
// each led to, the orchestrator's texts, and how turns ended. What a call returned is
// with its task.
export function chatItems(s) {
  const byTrigger = new Map();
  for (const t of s.tasks.values()) {
    if (!byTrigger.has(t.triggerMessageId)) byTrigger.set(t.triggerMessageId, []);
    byTrigger.get(t.triggerMessageId).push(t);
  }
  const items = [];
  let turn = "";
  const known = new Set(s.messages.map((m) => m.id));
  // The message that began the oldest turn may not be loaded, while its tasks are.
  const orphans = (turnId) => {
    for (const [trigger, tasks] of byTrigger) {
      if (trigger.startsWith(`${turnId}.`) && !known.has(trigger)) for (const t of tasks) items.push({ kind: "task", key: t.id, task: t });
    }
  };
  const close = () => {
    const end = s.ends.get(turn);
    if (end) items.push({ kind: "end", key: `end:${turn}`, end, cut: (s.cuts.get(turn) ?? []).join("; ") });
  };
  for (const m of s.messages) {
    if (m.role === "system") continue;
    if (m.turnId !== turn) {
      close();
      if (!turn) orphans(m.turnId);
      turn = m.turnId;
    }
    if (m.role === "tool") continue;
    if (m.role === "user") {
      items.push({ kind: m.source?.startsWith("agent:") ? "report" : "user", key: m.id, message: m });
      for (const t of byTrigger.get(m.id) ?? []) {
        items.push({ kind: "task", key: t.id, task: t });
      }
    } else if (text(m)) {
      items.push({ kind: "assistant", key: m.id, message: m });
    }
  }
  if (s.messages.length && turn) {
    for (const [id, v] of s.streams) if (v.turnId === turn) items.push({ kind: "stream", key: id, stream: v });
    close();
  }
  return items;
}

const text = (m) => (typeof m.content === "string" ? m.content.trim() !== "" : Array.isArray(m.content) && m.content.length > 0) || Boolean(m.reasoning && !m.tool_calls?.length);

// transcript is the whole thread for the inspector: every message, calls with results.
export function transcript(s) {
  const items = [];
  const done = new Set();
  for (const m of s.messages) {
    if (m.role === "tool") continue;
    items.push({ kind: m.role, key: m.id, message: m, calls: (m.tool_calls ?? []).map((c) => callOf(s, c)) });
    done.add(m.id);
  }
  for (const r of s.replies.values()) {
    if (done.has(r.id) || s.messages.some((m) => m.tool_calls?.[0]?.id === r.tool_calls?.[0]?.id && m.tool_calls?.length)) continue;
    items.push({ kind: "assistant", key: r.id, message: r, calls: (r.tool_calls ?? []).map((c) => callOf(s, c)) });
  }
  for (const [id, v] of s.streams) items.push({ kind: "stream", key: id, stream: v });
  return items;
}

// callOf is a call with its state. The result comes from its message where the state
// is not known.
function callOf(s, c) {
  const known = s.calls.get(c.id);
  if (known?.result !== undefined || known?.status === "running") return known;
  const answer = s.messages.find((m) => m.role === "tool" && m.tool_call_id === c.id);
  return {
    id: c.id, toolName: c.function.name, args: c.function.arguments, status: answer?.status ?? "pending", ...known,
    ...(answer && { status: answer.status ?? "success", result: typeof answer.content === "string" ? answer.content : "" }),
  };
}
