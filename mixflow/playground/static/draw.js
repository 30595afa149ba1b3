// Small helpers for elements, SVG and numbers.

const NS = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function text(x, y, words, kind = "", anchor = "middle") {
  return svg("text", { x, y, class: kind, "text-anchor": anchor }, words);
}

// Set attributes that differ; most do not from frame to frame.
export function put(target, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    const said = String(value);
    if (target.getAttribute(key) !== said) target.setAttribute(key, said);
  }
}

export function write(target, words) {
  if (target.textContent !== words) target.textContent = words;
}

// Four significant digits, or as many as asked, as the scripts print them.
export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e6) return String(Number(value.toPrecision(digits)));
  return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
}

// With a real minus sign, for people.
export function signed(value, digits = 2) {
  const shown = value.toFixed(digits);
  return Number(shown) === 0 ? (0).toFixed(digits) : shown.replace("-", "−");
}

// An identifier has no sign, and a feature by itself (sign 0) neither.
export function tokenName(feature, sign) {
  return feature[0] === "c" || sign === 0 ? feature : `${sign > 0 ? "+" : "−"}${feature}`;
}

// A token as a tile: identifiers (c) are square, signals round; a negative one is hollow.
export function chip(feature, sign) {
  return element("span", { class: `chip chip-${feature[0]}${sign < 0 ? " chip-minus" : ""}` }, tokenName(feature, sign));
}
