// What a person decides about hides nothing: characters that a browser shows as nothing,
// as a blank, or as an order for the text around them. Knows no browser: tested by node,
// against the table that terminals have.

// An emoji is followed by U+FE0F to have its colours.
const hidden = /(?!(?<=\p{Extended_Pictographic})\uFE0F)(?:[^\p{L}\p{M}\p{N}\p{P}\p{S} \n\t]|[\p{Default_Ignorable_Code_Point}\u2800])/gu;

// Letters of other scripts that pass for Latin ones, as terminals have them.
const alike = "аеорсухіјѕһԁԛԝӏѵАВЕКМНОРСТУХІЈЅѴ" + "αονρυικΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "օոսհ";
const all = new RegExp(`^[${alike}]+$`, "u"), one = new RegExp(`[${alike}]`, "gu"), latin = /\p{Script=Latin}/u;

// places are those of what hides, of letters that look like Latin ones in a word with Latin
// letters, or as a whole word beside one, and of piles of marks.
function places(text) {
  const at = [...text.matchAll(hidden)].map((m) => m.index);
  for (const m of text.matchAll(/\p{M}{5,}/gu)) for (let i = 0; i < m[0].length; i++) at.push(m.index + i);
  for (const part of text.matchAll(/[^\s"'`]+/gu))
    if (latin.test(part[0]))
      for (const word of part[0].matchAll(/[\p{L}\p{M}]+/gu))
        if (latin.test(word[0]) || all.test(word[0])) for (const m of word[0].matchAll(one)) at.push(part.index + word.index + m.index);
  return [...new Set(at)].sort((a, b) => a - b);
}

// seen takes a text apart: what can be seen as texts, what cannot, or is taken for something
// else, as {code: "U+202E"}.
export function seen(text) {
  const parts = [];
  let from = 0;
  for (const at of places(text)) {
    if (at < from) continue; // the other half of a character
    if (at > from) parts.push(text.slice(from, at));
    const c = text.codePointAt(at);
    parts.push({ code: `U+${c.toString(16).toUpperCase().padStart(4, "0")}` });
    from = at + String.fromCodePoint(c).length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

// visible is that as one text.
export const visible = (text) => seen(text ?? "").map((p) => (p.code ? `⟨${p.code}⟩` : p)).join("");
