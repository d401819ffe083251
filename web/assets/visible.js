// What a person decides about hides nothing: characters that a browser shows as nothing,
// as a blank, or as an order for the text around them. Knows no browser: tested by node,
// against the table that terminals have.

// An emoji is followed by U+FE0F to have its colours.
const hidden = /(?!(?<=\p{Extended_Pictographic})\uFE0F)(?:[^\p{L}\p{M}\p{N}\p{P}\p{S} \n\t]|[\p{Default_Ignorable_Code_Point}\u2800])/gu;

// seen takes a text apart: what can be seen as texts, what cannot as {code: "U+202E"}.
export function seen(text) {
  const parts = [];
  let from = 0;
  for (const m of text.matchAll(hidden)) {
    if (m.index > from) parts.push(text.slice(from, m.index));
    parts.push({ code: `U+${m[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}` });
    from = m.index + m[0].length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

// visible is that as one text.
export const visible = (text) => seen(text ?? "").map((p) => (p.code ? `⟨${p.code}⟩` : p)).join("");
