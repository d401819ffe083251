// What was typed and not sent yet, kept by the browser: text, images, and the id under
// which it will be sent, so that a message of which nobody knows whether it arrived is
// sent again as the same one. It is written at once: a page may be gone any moment.

const prefix = "draft:";

// read returns the draft of a conversation: {text, images, id}, or undefined.
export function read(key) {
  try {
    return JSON.parse(localStorage.getItem(prefix + key)) ?? undefined;
  } catch {
    return undefined;
  }
}

// write keeps it; an empty one is forgotten.
export function write(key, draft) {
  try {
    if (draft.text || draft.images.length) localStorage.setItem(prefix + key, JSON.stringify(draft));
    else localStorage.removeItem(prefix + key);
  } catch {
    // Without room a draft lasts as long as the page.
  }
}

// forget drops all of them, as the next person is another one.
export function forget() {
  try {
    for (const k of Object.keys(localStorage)) if (k.startsWith(prefix)) localStorage.removeItem(k);
  } catch {
    // There are none.
  }
}
