// What a view shows of a thread, in order: each turn as a list of items. Pure, and
// remembered by identity: a turn that did not change gives the same list again.
import { contentText, unfinished } from "./format.js";
import { parsed, taskOf } from "./thread.js";

const known = new WeakMap();

// itemsOf are the items of a turn: the message that began it with the roll-up of its
// tasks, then each reply (its thoughts, its text, its calls), questions where they were
// asked, what is being written, and how it ended.
export function itemsOf(turn) {
  let items = known.get(turn);
  if (!items) known.set(turn, (items = make(turn)));
  return items;
}

function make(turn) {
  const steps = [];
  for (const m of turn.messages) {
    if (m.role === "tool") continue;
    if (m.role === "system") steps.push({ kind: "system", key: m.id, message: m, at: m.timestamp });
    else if (m.role === "user") steps.push({ kind: m.source?.startsWith("agent:") ? "report" : "user", key: m.id, message: m, at: m.timestamp });
    else reply(turn, m, steps);
  }
  if (turn.reply) reply(turn, turn.reply, steps);
  place(turn, steps);
  const items = [];
  const rolled = new Set();
  if (steps.length && steps[0].kind !== "user" && steps[0].kind !== "report" && steps[0].kind !== "system") rollUp(turn, null, items, rolled);
  for (const i of steps) {
    items.push(i);
    if (i.kind === "user" || i.kind === "report") rollUp(turn, i.key, items, rolled);
  }
  for (const [id, stream] of turn.streams) items.push({ kind: "stream", key: id, stream });
  if (turn.end) items.push({ kind: "end", key: `end:${turn.id}`, end: turn.end, cut: turn.cuts.join("; ") });
  return items;
}

// reply puts a message of the model and its calls behind it.
function reply(turn, m, out) {
  const calls = (m.tool_calls ?? []).map((c) => callWith(turn, c));
  const at = calls.map((c) => c.createdAt).filter(Boolean).sort()[0] ?? m.timestamp;
  if (m.reasoning || contentText(m.content).trim() || Array.isArray(m.content)) out.push({ kind: "assistant", key: m.id, message: m, at });
  for (const c of calls) {
    if (c.toolName === "ask_user" && turn.asks.size && [...turn.asks.values()].some((a) => a.toolCallId === c.id)) continue; // the question stands there
    out.push({ kind: "call", key: c.id, call: c, task: turn.tasks.get(taskOf(c.id)), action: turn.actions.get(taskOf(c.id)), at: c.createdAt ?? at });
  }
}

// place puts questions where they were asked, and notes where they belong.
function place(turn, steps) {
  const notes = turn.notes.map((n) => ({ kind: "note", key: `note:${turn.id}:${n.seq}`, text: n.text, at: n.at }));
  const asks = [...turn.asks].map(([id, ask]) => ({ kind: "question", key: id, ask, at: ask.at }));
  for (const i of [...asks, ...notes]) steps.splice(steps.findLastIndex((s) => Date.parse(s.at) <= Date.parse(i.at)) + 1, 0, i);
}

// rollUp is one line for all that a message led to, and its agents.
function rollUp(turn, message, items, rolled) {
  const mine = [...turn.tasks.values()].filter((t) => !rolled.has(t.id) && (message === null ? !turn.messages.some((m) => m.id === t.triggerMessageId) : t.triggerMessageId === message));
  if (!mine.length) return;
  for (const t of mine.sort(inOrder)) rolled.add(t.id);
  const agents = mine.filter((t) => t.type === "agent").map((task) => ({ task, action: turn.actions.get(task.id) }));
  const tools = mine.filter((t) => t.type === "tool" && t.name !== "tool:ask_user");
  if (!agents.length && !tools.length) return; // a question alone: it stands below
  items.push({ kind: "rollup", key: `rollup:${message ?? turn.id}`, agents, tools: tools.length, end: turn.end, began: mine[0].createdAt, failed: tools.filter((t) => t.status === "failed").length, open: mine.some((t) => unfinished(t.status)) });
}

// callWith is a call with its state. The result comes from its message where the state
// is not known.
function callWith(turn, c) {
  const row = turn.calls.get(c.id);
  const said = turn.messages.find((m) => m.role === "tool" && m.tool_call_id === c.id);
  if (row && ((row.result !== undefined && row.whole !== false) || !said)) return row;
  return {
    id: c.id, toolName: c.function.name, args: c.function.arguments, status: said?.status ?? "pending", ...row,
    ...(said && { status: said.status ?? "success", errorReason: said.errorReason ?? row?.errorReason, result: contentText(said.content) }),
  };
}

// answers are the earlier answers that a turn's answer replaces, oldest first: those of
// the turns right before it that were tried again. A retry brings no message of its own.
export function answers(turns, i) {
  const out = [];
  for (let k = i; k > 0 && !turns[k].messages.some((m) => m.role === "user"); k--) {
    const m = answerOf(turns[k - 1]);
    if (m) out.unshift(m);
  }
  return out;
}

// answerOf is a turn's answer, if it has one.
export const answerOf = (turn) => turn.messages.findLast((m) => m.role === "assistant" && !m.tool_calls?.length && !m.partial);

// tasksOf are a thread's tasks for a list: oldest first, each with what people call it.
export function tasksOf(state) {
  const out = [];
  for (const t of state.turns) out.push(...[...t.tasks.values()].filter((task) => task.name !== "tool:ask_user").sort(inOrder));
  return out;
}

// inOrder is the order in which a turn's calls were made: their ids end with the step and
// the place in its reply.
export function inOrder(a, b) {
  const [x, y] = [a, b].map((t) => /_(\d+)_(\d+)$/.exec(t.id)?.slice(1).map(Number) ?? [0, 0]);
  return x[0] - y[0] || x[1] - y[1];
}

// nameOf is what a person calls a task: the few words of its call, or what it is to do.
export function nameOf(task) {
  if (task.description) return task.description;
  if (task.type === "agent") return task.instruction || task.name.replace(/^agent:/, "");
  const args = parsed(task.instruction);
  const what = args.command ?? args.path ?? args.pattern ?? args.url ?? args.query ?? args.expression ?? Object.values(args).find((v) => typeof v === "string") ?? "";
  return `${task.name.replace(/^tool:/, "")} ${what}`.trim();
}
