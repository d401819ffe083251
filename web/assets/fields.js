// The arguments of a call as a person changes them: a field for each. Knows no browser:
// tested by node.

// fieldsOf are the fields of arguments: a text as it is, all else as JSON. null if they
// are no object, so that nobody can change them one by one.
export function fieldsOf(args) {
  if (args === null || typeof args !== "object" || Array.isArray(args) || !Object.keys(args).length) return null;
  return Object.entries(args).map(([key, v]) => (typeof v === "string" ? { key, text: v } : { key, text: JSON.stringify(v, null, 2), json: true }));
}

// argumentsOf reads fields: {args}, or {wrong} that says which one is no JSON.
export function argumentsOf(fields) {
  const args = {};
  for (const f of fields) {
    try {
      args[f.key] = f.json ? JSON.parse(f.text) : f.text;
    } catch {
      return { wrong: `${f.key} is no JSON` };
    }
  }
  return { args };
}

// changed reports whether fields hold other arguments than those given.
export const changed = (fields, args) => JSON.stringify(argumentsOf(fields).args) !== JSON.stringify(args);
