// What people should know of the parts that answer them. Knows no browser: tested by node.

import { duration, waitText } from "./format.js";

// healthLines are the lines to show: one for each part that is away, and one for all model
// calls that wait for their provider. topics names conversations. A line that was
// dismissed comes again when the same happens anew; so its key has the time.
export function healthLines(health, now, topics = new Map()) {
  const out = [];
  for (const h of health) {
    if (h.kind === "wait" || h.kind === "demo" || !h.text) continue;
    const since = h.since && now - Date.parse(h.since) > 60_000 ? ` (for ${duration(now - Date.parse(h.since)).replace(/ \d+ s$/, "")})` : "";
    out.push({ key: `${h.kind} ${h.since ?? ""}`, kind: h.kind, text: h.text + since });
  }
  const waits = health.filter((h) => h.kind === "wait" && Date.parse(h.wait.until) > now).map((h) => h.wait);
  if (waits.length) {
    const [w] = waits;
    const topic = topics.get(w.rootThreadId);
    const more = new Set(waits.map((x) => x.rootThreadId)).size - 1;
    const left = Math.max(1, Math.ceil((Date.parse(w.until) - now) / 1000));
    out.push({ key: `wait ${w.code} ${w.rootThreadId}`, kind: "wait", text: `${topic ? `${topic}: ` : ""}${waitText(w, now)}, in ${duration(left * 1000).replace(".0 ", " ")}${more > 0 ? `; ${more} more conversation${more > 1 ? "s" : ""} wait${more > 1 ? "" : "s"}, too` : ""}` });
  }
  return out;
}
