// Figures and states as people read them. Knows no browser: tested by node.

export function duration(ms) {
  if (!(ms >= 0)) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min ${Math.round(s % 60)} s`;
  const h = Math.floor(m / 60);
  return h < 48 ? `${h} h ${m % 60} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
}

export function count(n) {
  if (n < 10_000) return String(n);
  return n < 1_000_000 ? `${(n / 1000).toFixed(n < 100_000 ? 1 : 0)} k` : `${(n / 1e6).toFixed(1)} M`;
}

export const tokens = (n) => (n ? `${count(n)} tokens` : "");

export function price(usd) {
  if (!usd) return "";
  return `$${usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2)}`;
}

// figures joins those that are there.
export const figures = (...parts) => parts.filter(Boolean).join(" · ");

export function ago(at, now) {
  const s = (now - Date.parse(at)) / 1000;
  if (!(s > 60)) return "now";
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  return new Date(at).toLocaleDateString();
}

// clock is a time of day, with its date if that is not today.
function clock(at, now) {
  const t = new Date(at);
  return t.toDateString() === new Date(now).toDateString() ? t.toLocaleTimeString() : t.toLocaleString();
}

// localTimes rewrites the times of a text that was kept.
export function localTimes(text, now = Date.now()) {
  return text?.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (at) => clock(at, now));
}

const faults = {
  rate_limited: "rate limited", overloaded: "overloaded", broken_stream: "its answer broke off", idle_timeout: "it fell silent", unreachable: "no connection",
  answer_invalid: "its answer does not fit the schema", cut_off: "its answer was cut off", bad_response: "its answer cannot be understood",
};

// waitText says what a model call waits for and until when.
export function waitText(w, now) {
  const why = (faults[w.code] ?? w.code) + (w.reason && w.code !== "answer_invalid" ? `: “${w.reason}”` : "");
  const until = clock(w.until, now);
  if (w.held) {
    const said = [w.status, w.reason && `“${w.reason}”`].filter(Boolean).join(": ");
    return `held back until ${until}: the provider asked everyone to wait${said && ` (${said})`}`;
  }
  if (w.asked) return `waiting for the provider until ${until} (${why}), attempt ${w.attempt}`;
  const end = w.givesUpAt ? `; ${w.fallback ? `goes on with ${w.fallback}` : "gives up"} at ${clock(w.givesUpAt, now)}` : "";
  return `the model did not answer (${why}), trying again at ${until} (attempt ${w.attempt}${end})`;
}

const states = {
  pending: ["○", "Waiting to start"],
  running: ["◐", "Running"],
  active: ["◐", "Running"],
  waiting: ["◔", "Waiting for a person"],
  waiting_for_user: ["?", "Waiting for an answer"],
  waiting_for_approval: ["!", "Waiting for approval"],
  awaiting_approval: ["!", "Waiting for approval"],
  completed: ["✓", "Completed"],
  success: ["✓", "Completed"],
  failed: ["✗", "Failed"],
  unknown: ["✗", "Outcome unknown"],
  cancelled: ["⊘", "Cancelled"],
  aborted: ["⊘", "Aborted"],
  denied: ["⊘", "Denied"],
  edited: ["↩", "Told otherwise"],
  queued: ["○", "Queued"],
};

// state is the icon and the words of a status of any kind.
export function state(status) {
  const [icon, words] = states[status] ?? ["·", status ?? ""];
  return { icon, words };
}

// outcome is the status of a call as people call it: a person who answered in its place
// did not cancel it.
export const outcome = (call) => (call.errorReason === "edited" ? "edited" : call.errorReason === "denied" ? "denied" : call.status);

// took is how long a task has worked, or did.
export const took = (task, now) => (unfinished(task.status) ? now : Date.parse(task.updatedAt)) - Date.parse(task.createdAt);

const hour = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });
const whole = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "short" });
// time is a time of day for people, and whole when it is not today's.
export const time = (at, now = Date.now()) => (new Date(at).toDateString() === new Date(now).toDateString() ? hour : whole).format(new Date(at));

// unfinished says whether a status can still change by itself.
export const unfinished = (status) => ["pending", "running", "active", "waiting", "waiting_for_user", "waiting_for_approval", "awaiting_approval"].includes(status);

// needsPerson says whether a status waits for one.
export const needsPerson = (status) => ["waiting", "waiting_for_user", "waiting_for_approval", "awaiting_approval"].includes(status);

// title writes an agent's name as a heading: research-lead -> Research lead.
export function title(name) {
  const s = (name ?? "").replaceAll("-", " ");
  return s.charAt(0).toUpperCase() + s.slice(1);
}

// brief is a call's arguments in one line.
export function brief(args, most = 80) {
  let value = args;
  if (typeof args === "string") {
    try {
      value = JSON.parse(args);
    } catch {
      return cut(args, most);
    }
  }
  if (!value || typeof value !== "object") return value === undefined || value === null ? "" : cut(String(value), most);
  const each = Object.entries(value).map(([k, v]) => `${k}=${typeof v === "string" ? v : JSON.stringify(v)}`);
  return cut(each.join(", "), most);
}

// cut shortens at a character's border.
export function cut(text, most) {
  const flat = text.replace(/\s+/g, " ").trim();
  const all = [...flat];
  return all.length > most ? all.slice(0, most - 1).join("") + "…" : flat;
}

// pretty writes JSON for reading, and leaves other text as it is.
export function pretty(value) {
  if (typeof value !== "string") return JSON.stringify(value, null, 2) ?? "";
  const s = value.trim();
  if (!s.startsWith("{") && !s.startsWith("[")) return value;
  try {
    return JSON.stringify(JSON.parse(s), null, 2);
  } catch {
    return value;
  }
}

// contentText is the text of a message's content.
export function contentText(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.filter((p) => p.type === "text").map((p) => p.text ?? "").join("\n");
}

// contentImages are the addresses of a message's images.
export function contentImages(content) {
  return Array.isArray(content) ? content.filter((p) => p.type === "image_url").map((p) => p.image_url?.url ?? "") : [];
}

// imageAddress is where the page may load an image from, or "": one from elsewhere
// would tell its server that the message was read.
export function imageAddress(url) {
  const kept = /^image:([0-9a-f]{64}\.(png|jpg|gif|webp))$/.exec(url);
  if (kept) return `/api/v1/images/${kept[1]}`;
  return /^data:image\/(png|jpeg|gif|webp);base64,/.test(url) ? url : "";
}
