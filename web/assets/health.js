// What is away or waited for, a line each.
import { html, Seen } from "./ui.js";

export function Health({ model }) {
  return model.health.filter((h) => h.text && h.kind !== "demo").map((h) => html`<p class="health" role="status" key=${h.kind}><${Seen} text=${h.text} /></p>`);
}
