// A link within the page.
import { html } from "./ui.js";
import { write } from "./route.js";

export function Go({ model, to, children, onGo, ...rest }) {
  const click = (e) => {
    if (e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
    e.preventDefault();
    onGo?.();
    model.go(to);
  };
  return html`<a href=${write(model.placed(to))} onClick=${click} ...${rest}>${children}</a>`;
}
