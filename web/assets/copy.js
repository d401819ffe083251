// A button that copies.
import { h } from "./vendor/preact.js";
import { useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";

const html = htm.bind(h);

// Copy copies a text, or what a function gives; what names it for those who cannot see.
export function Copy({ text, what, label = "Copy" }) {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? await text() : text);
      say("Copied");
    } catch {
      say("Copying is not allowed here");
    }
    setTimeout(() => say(""), 2000);
  };
  return html`<button type="button" class="quiet small copy" aria-label=${said || what || label} onClick=${copy}><span aria-live="polite">${said || label}</span></button>`;
}
