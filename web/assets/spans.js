// What a trace shows: the spans of a turn and of all sub-agents below it, nested, on one
// axis of time. Knows no browser: tested by node.

import { duration } from "./format.js";

const at = (text) => Date.parse(text);

// waterfall arranges spans: rows in the order of the tree, each with its place on the axis
// in percent, and the axis. shut holds the ids of the spans whose insides are hidden.
export function waterfall(answer, now, shut = new Set()) {
  const { turn, spans } = answer;
  const below = new Map();
  const known = new Set(spans.map((s) => s.id));
  for (const s of spans) {
    const parent = known.has(s.parent) ? s.parent : "";
    if (!below.has(parent)) below.set(parent, []);
    below.get(parent).push(s);
  }
  const begun = Math.min(turn ? at(turn.openedAt) : Infinity, ...spans.map((s) => at(s.startAt)));
  const ends = spans.map((s) => (s.endAt ? at(s.endAt) : now));
  const end = Math.max(begun + 1, turn?.closedAt ? at(turn.closedAt) : turn ? now : 0, ...ends);
  const total = end - begun;
  const rows = [];
  const walk = (parent, depth) => {
    for (const s of below.get(parent) ?? []) {
      const from = at(s.startAt);
      const ms = (s.endAt ? at(s.endAt) : now) - from;
      const inside = below.has(s.id);
      rows.push({
        span: s, depth, inside, shut: shut.has(s.id), open: !s.endAt, ms,
        left: (100 * (from - begun)) / total, width: Math.max(s.kind === "lost" ? 0 : 0.4, (100 * ms) / total),
      });
      if (inside && !shut.has(s.id)) walk(s.id, depth + 1);
    }
  };
  walk("", 0);
  return { begun, end, total, rows, ticks: ticks(total) };
}

// ticks are the marks of an axis, three to seven, at round times.
export function ticks(total) {
  let step = 1;
  for (const unit of [1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000, 8.64e9]) {
    for (const times of [1, 2, 5]) {
      if (unit * times * 6 >= total) {
        step = unit * times;
        return Array.from({ length: Math.floor(total / step) + 1 }, (_, i) => ({ at: (100 * i * step) / total, text: i ? duration(i * step).replace(".0 ", " ") : "0" }));
      }
    }
  }
  return [{ at: 0, text: "0" }];
}

const asked = new Set(["approval", "question"]);

// waits says whether a span is time in which nobody works.
export const waits = (s) => s.kind === "wait" || asked.has(s.kind);

// summary counts what a trace has. Nested and parallel spans are counted, not added up.
export function summary(spans) {
  const n = { model: 0, tool: 0, agent: 0, lost: 0, again: 0, tokens: 0, price: 0 };
  for (const s of spans) {
    if (s.kind in n) n[s.kind]++;
    if (s.kind === "model" && s.attempt > 1) n.again++;
    if (s.kind === "model" && s.usage) {
      n.tokens += s.usage.totalTokens ?? 0;
      n.price += s.usage.price ?? 0;
    }
  }
  return n;
}
