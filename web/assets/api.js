// The API of the server under /api/v1, as far as the page uses it.

export class ApiError extends Error {
  constructor(status, body) {
    super(body?.error?.message ?? `the server answered ${status}`);
    this.status = status;
    this.code = body?.error?.code ?? "unknown";
    this.pending = body?.error?.pending;
  }
}

async function request(method, path, body) {
  let r;
  try {
    r = await fetch(`/api/v1${path}`, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new ApiError(0, { error: { code: "unreachable", message: "The server cannot be reached. Nothing is lost: try again." } });
  }
  if (r.headers.get("Content-Type")?.startsWith("application/json")) {
    const answer = await r.json();
    if (!r.ok) throw new ApiError(r.status, answer);
    return answer;
  }
  if (!r.ok) throw new ApiError(r.status);
  return r.text();
}

export const get = (path) => request("GET", path);

const at = (id) => `/threads/${encodeURIComponent(id)}`;
const query = (values) => {
  const q = new URLSearchParams(Object.entries(values).filter(([, v]) => v !== undefined && v !== ""));
  return q.size ? `?${q}` : "";
};

export const api = {
  me: () => request("GET", "/me"),
  open: (place) => request("GET", `/open${query(place)}`),
  login: (token) => request("POST", "/login", { token }),
  logout: () => request("POST", "/logout", {}),
  views: (id, last) => request("GET", `/views${query({ thread: id, last })}`),
  threads: (filter) => request("GET", `/threads${query(filter)}`),
  show: (id, options) => request("GET", at(id) + query(options)),
  messages: (id, page) => request("GET", `${at(id)}/messages${query(page)}`),
  tasks: (id) => request("GET", `${at(id)}/tasks`),
  rename: (id, topic) => request("PATCH", at(id), { topic }),
  remove: (id) => request("DELETE", at(id)),
  exportAddress: (id, format) => `/api/v1${at(id)}/export${query({ format })}`,
  output: (call) => request("GET", `/tool-calls/${encodeURIComponent(call)}/output`),
  before: (call) => request("GET", `/tool-calls/${encodeURIComponent(call)}/before`),
  keepImage: (data) => request("POST", "/images", { data }),
  send: (message) => request("POST", "/messages", message),
  cancel: (id, options) => request("POST", `${at(id)}/cancel`, options),
  retry: (id, requestId) => request("POST", `${at(id)}/retry`, { requestId }),
  fork: (id, options) => request("POST", `${at(id)}/fork`, options),
  decide: (approval, decision) => request("POST", `/approvals/${encodeURIComponent(approval)}/decision`, decision),
  answer: (question, text) => request("POST", `/questions/${encodeURIComponent(question)}/answer`, { text }),
};
