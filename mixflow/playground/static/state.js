// The whole page in one table: the experiment's controls and the view's own. Whatever differs from its
// default is written to the address, after the #, so every view is a link and no server ever sees it.

// "text" is a value of its own form: `pattern` tells the good ones, `form` tells people.
const VIEW = [
  { name: "t", label: "time cursor", kind: "real", default: null, least: 0, most: 1e12 }, // null: the end of the run
  { name: "axis", label: "time axis", kind: "choice", default: "log", choices: { log: "logarithmic", linear: "linear" } },
  { name: "zoom", label: "stretch of time", kind: "text", default: null, pattern: /^[\d.e+-]{1,24},[\d.e+-]{1,24}$/,
    form: "two times such as 12,300", good: (text) => { const [a, b] = text.split(",").map(Number); return a >= 0 && b > a; } },
  { name: "off", label: "curves switched off", kind: "text", default: null, pattern: /^[a-z]{1,20}\.[^,<>]{1,60}(,[a-z]{1,20}\.[^,<>]{1,60}){0,40}$/,
    form: "curves such as loss.easy%20samples" },
  { name: "head", label: "head in the curves of w", kind: "choice", default: "plus", choices: { plus: "+", minus: "−" } },
  { name: "sample", label: "sample", kind: "whole", default: 1, least: 0, most: 4095 },
  { name: "probe", label: "number over time", kind: "text", default: "m0", pattern: /^([mzw][01]|k\d)$/, form: "m0, z0, z1, w0, w1 or k0 … k9" },
  { name: "speed", label: "speed", kind: "choice", default: "1",
    choices: { "0.25": "¼ ×", "0.5": "½ ×", 1: "1 ×", 2: "2 ×", 4: "4 ×" } },
  { name: "compare", label: "compare with", kind: "choice", default: "none", choices: { none: "nothing" } },
  { name: "theme", label: "colours", kind: "choice", default: "auto",
    choices: { auto: "as the system", light: "light", dark: "dark" } },
  { name: "preset", label: "experiment", kind: "choice", default: "none", choices: { none: "choose one …" } },
  { name: "step", label: "step of the story", kind: "choice", default: "none",
    choices: { none: "no story", 1: "1", 2: "2", 3: "3", 4: "4", 5: "5" } },
];

export class State extends EventTarget {
  constructor({ controls, methods, presets, figure }) {
    super();
    this.silent = Boolean(figure); // a frame inside another document has no address of its own to write
    this.controls = controls;
    this.table = new Map([...controls, ...VIEW].map((row) => [row.name, row]));
    const compare = this.table.get("compare");
    Object.assign(compare.choices, methods);
    compare.only = { method: Object.keys(methods) };
    for (const preset of presets) this.table.get("preset").choices[preset.id] = preset.name;
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
    return Object.entries(row.only ?? {}).every(([name, allowed]) => allowed.includes(this.values[name]));
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
    if (this.silent) return;
    clearTimeout(this.writing);
    this.writing = setTimeout(() => {
      const query = this.query();
      if (location.hash.replace(/^#/, "") !== query) history.replaceState(null, "", query ? `#${query}` : location.pathname);
    }, 120);
  }

  // Take the values in the address; returns one sentence for each that makes no sense.
  read(fragment) {
    const problems = [];
    for (const [name, text] of new URLSearchParams(fragment.replace(/^#/, ""))) {
      const row = this.table.get(name);
      if (!row) {
        problems.push(`The address speaks of “${name.slice(0, 40)}”, which does not exist here.`);
        continue;
      }
      const value = parse(row, text);
      if (value === undefined) {
        problems.push(`${row.label} = “${text.slice(0, 40)}” makes no sense: expected ${expected(row)}; it is ${row.default ?? "left out"} now.`);
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
  if (row.kind === "text") return row.pattern.test(text) && (row.good?.(text) ?? true) ? text : undefined;
  const value = text.trim() === "" ? NaN : Number(text);
  const whole = row.kind !== "whole" || Number.isInteger(value);
  return whole && value >= row.least && value <= row.most ? value : undefined;
}

function expected(row) {
  if (row.kind === "choice") return `one of ${Object.keys(row.choices).join(", ")}`;
  if (row.kind === "flag") return "true or false";
  if (row.kind === "text") return row.form;
  return `${row.kind === "whole" ? "a whole number" : "a number"} from ${row.least} to ${row.most}`;
}
