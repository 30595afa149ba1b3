// The whole page in one table: the experiment's controls (from the server) and the view's own. Whatever differs from its
// default is written to the address, so every view is a link.

const VIEW = [
  { name: "t", label: "time cursor", kind: "real", default: null, least: 0, most: 1e12 }, // null: the end of the run
  { name: "axis", label: "time axis", kind: "choice", default: "log", choices: { log: "logarithmic", linear: "linear" } },
  { name: "head", label: "head", kind: "choice", default: "plus", choices: { plus: "+", minus: "−" } },
  { name: "sample", label: "sample", kind: "whole", default: 1, least: 0, most: 4095 },
  { name: "speed", label: "speed", kind: "choice", default: "1",
    choices: { "0.25": "¼ ×", "0.5": "½ ×", 1: "1 ×", 2: "2 ×", 4: "4 ×" } },
  { name: "compare", label: "compare with", kind: "choice", default: "none", choices: { none: "nothing" } },
  { name: "theme", label: "colours", kind: "choice", default: "auto",
    choices: { auto: "as the system", light: "light", dark: "dark" } },
];

export class State extends EventTarget {
  constructor(controls) {
    super();
    this.controls = controls;
    const methods = controls.find((row) => row.name === "method").choices;
    Object.assign(VIEW.find((row) => row.name === "compare").choices, methods);
    this.table = new Map([...controls, ...VIEW].map((row) => [row.name, row]));
    this.values = Object.fromEntries([...this.table.values()].map((row) => [row.name, row.default]));
  }

  get(name) {
    return this.values[name];
  }

  // Set one or several values; listeners learn which.
  set(changes) {
    const changed = Object.keys(changes).filter((name) => this.values[name] !== changes[name]);
    if (!changed.length) return;
    for (const name of changed) this.values[name] = changes[name];
    this.write();
    this.dispatchEvent(new CustomEvent("change", { detail: new Set(changed) }));
  }

  // Back to the defaults except for these.
  reset(changes) {
    const view = Object.fromEntries(["theme", "speed", "axis"].map((name) => [name, this.values[name]]));
    const defaults = Object.fromEntries([...this.table.values()].map((row) => [row.name, row.default]));
    this.set({ ...defaults, ...view, ...changes });
  }

  // What the engine needs to know for a run.
  request(overrides = {}) {
    return { ...Object.fromEntries(this.controls.map((row) => [row.name, this.values[row.name]])), ...overrides };
  }

  used(row) {
    return !row.methods || row.methods.includes(this.values.method);
  }

  query() {
    const words = new URLSearchParams();
    for (const row of this.table.values()) {
      if (this.values[row.name] !== row.default && this.used(row)) words.set(row.name, String(this.values[row.name]));
    }
    return words.toString();
  }

  // A playing cursor changes every frame, and browsers limit how often the address may: write it when things are quiet.
  write() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => {
      const query = this.query();
      if (location.search.replace(/^\?/, "") !== query) history.replaceState(null, "", query ? `?${query}` : location.pathname);
    }, 120);
  }

  // Take the values in the address; returns one sentence for each that makes no sense.
  read(search) {
    const problems = [];
    for (const [name, text] of new URLSearchParams(search)) {
      const row = this.table.get(name);
      if (!row) {
        problems.push(`The address speaks of “${name.slice(0, 40)}”, which does not exist here.`);
        continue;
      }
      const value = parse(row, text);
      if (value === undefined) {
        problems.push(`${row.label} = “${text.slice(0, 40)}” makes no sense: expected ${expected(row)}; it is ${row.default ?? "the end"} now.`);
      } else {
        this.values[name] = value;
      }
    }
    return problems;
  }
}

function parse(row, text) {
  if (row.kind === "choice") return text in row.choices ? text : undefined;
  if (row.kind === "flag") return { true: true, false: false }[text];
  const value = text.trim() === "" ? NaN : Number(text);
  const whole = row.kind !== "whole" || Number.isInteger(value);
  return whole && value >= row.least && value <= row.most ? value : undefined;
}

function expected(row) {
  if (row.kind === "choice") return `one of ${Object.keys(row.choices).join(", ")}`;
  if (row.kind === "flag") return "true or false";
  return `${row.kind === "whole" ? "a whole number" : "a number"} from ${row.least} to ${row.most}`;
}
