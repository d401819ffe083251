// What was typed and not sent yet, kept by the browser: text, images, and the id under
// which it will be sent, so that a message of which nobody knows whether it arrived is
// sent again as the same one.

let db;
const memory = new Map(); // without a database a draft lasts as long as the page

function open() {
  db ??= new Promise((resolve, reject) => {
    const r = indexedDB.open("spool", 1);
    r.onupgradeneeded = () => r.result.createObjectStore("drafts");
    r.onsuccess = () => resolve(r.result);
    r.onerror = () => reject(r.error);
  });
  return db;
}

async function run(mode, f) {
  const store = (await open()).transaction("drafts", mode).objectStore("drafts");
  return new Promise((resolve, reject) => {
    const r = f(store);
    r.onsuccess = () => resolve(r.result);
    r.onerror = () => reject(r.error);
  });
}

// read returns the draft of a conversation: {text, images, id}, or undefined.
export async function read(key) {
  if (memory.has(key)) return memory.get(key);
  try {
    return await run("readonly", (s) => s.get(key));
  } catch {
    return undefined;
  }
}

// write keeps it; an empty one is forgotten.
export function write(key, draft) {
  const empty = !draft.text && !draft.images.length;
  memory.set(key, empty ? undefined : draft);
  run("readwrite", (s) => (empty ? s.delete(key) : s.put(draft, key))).catch(() => {});
}
