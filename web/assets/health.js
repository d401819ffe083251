// A line for each thing that is not as it should be. It can be put away, and is gone when
// it is over.
import { html, Seen, useNow, useState } from "./ui.js";
import { healthLines } from "./healthlines.js";

export function Health({ model }) {
  const [away, put] = useState(new Set());
  const now = useNow(model.health.some((h) => h.kind !== "demo"));
  const topics = new Map([...model.threads.values()].map((t) => [t.id, t.topic]));
  return healthLines(model.health, now, topics).filter((l) => !away.has(l.key)).map((l) => html`<p class="health" role="status" key=${l.key} data-health=${l.kind}>
    <span aria-hidden="true">${l.kind === "wait" ? "◔" : "!"}</span> <span><${Seen} text=${l.text} /></span>
    <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => put(new Set([...away, l.key]))}>✕</button></p>`);
}
