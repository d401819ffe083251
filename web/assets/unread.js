// Which conversations have gone on since the person looked at them, kept by the browser.

const key = "seen";

export class Unread {
  constructor() {
    try {
      this.seen = JSON.parse(localStorage.getItem(key)) ?? {};
    } catch {
      this.seen = {};
    }
    this.seen.since ??= new Date().toISOString();
    this.keep();
  }

  // has says whether a conversation has something new, and does not work any more.
  has(t) {
    return !t.openTurnId && Date.parse(t.updatedAt) > Date.parse(this.seen[t.id] ?? this.seen.since);
  }

  // see notes that the person looks at it.
  see(t) {
    if (!t || this.seen[t.id] >= t.updatedAt) return;
    this.seen[t.id] = t.updatedAt;
    this.keep();
  }

  keep() {
    const kept = Object.entries(this.seen).sort(([, a], [, b]) => (a < b ? 1 : -1)).slice(0, 500);
    this.seen = { since: this.seen.since, ...Object.fromEntries(kept) };
    try {
      localStorage.setItem(key, JSON.stringify(this.seen));
    } catch {
      // Without storage everything since now counts as new.
    }
  }
}
