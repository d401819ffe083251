// What a change of a file changes, line by line. Knows no browser: tested by node.

const most = 2000; // lines up to which two texts are compared

// lines compares two texts: [" ", line] is in both, ["-", line] in the old one only,
// ["+", line] in the new one only.
export function lines(before, after) {
  const split = (text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));
  const a = split(before);
  const b = split(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const middle = compare(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  return [...a.slice(0, head).map((l) => [" ", l]), ...middle, ...a.slice(a.length - tail).map((l) => [" ", l])];
}

function compare(a, b) {
  if (!a.length || !b.length || a.length * b.length > most * most) return [...a.map((l) => ["-", l]), ...b.map((l) => ["+", l])];
  // The longest common lines, from the end.
  const n = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * n);
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) longest[i * n + j] = a[i] === b[j] ? longest[(i + 1) * n + j + 1] + 1 : Math.max(longest[(i + 1) * n + j], longest[i * n + j + 1]);
  const out = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push([" ", a[i++]]);
      j++;
    } else if (j >= b.length || (i < a.length && longest[(i + 1) * n + j] >= longest[i * n + j + 1])) out.push(["-", a[i++]]);
    else out.push(["+", b[j++]]);
  }
  return out;
}

// changes are the lines that a call writes, as far as its arguments and the file before it
// tell: null if the tool writes no file.
export function changes(tool, args, before = "") {
  if (tool === "file_write" && typeof args.content === "string") return lines(before, args.content);
  if (tool === "file_edit" && typeof args.old === "string" && typeof args.new === "string") return lines(args.old, args.new);
  return null;
}
