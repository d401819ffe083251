// Lists the user's conversations and keeps the list up to date.
const list = document.getElementById("threads");
const form = document.getElementById("login");
const rows = new Map();

function show(t) {
  if (t.kind !== "main") return;
  const row = rows.get(t.id) ?? document.createElement("li");
  row.textContent = `${t.topic || t.id}: ${t.status}, ${t.messageCount} messages`;
  rows.set(t.id, row);
  list.prepend(row);
}

async function start() {
  const me = await fetch("/api/v1/me");
  form.hidden = me.ok;
  if (!me.ok) return;
  const stream = new EventSource("/api/v1/follow?threads=true");
  stream.addEventListener("thread", (e) => show(JSON.parse(e.data)));
}

form.addEventListener("submit", async (e) => {
  e.preventDefault();
  const r = await fetch("/api/v1/login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token: document.getElementById("token").value }),
  });
  document.getElementById("refused").textContent = r.ok ? "" : (await r.json()).error.message;
  if (r.ok) start();
});

start();
