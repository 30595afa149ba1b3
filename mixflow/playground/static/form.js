// The experiment's controls, made from the table; a moved control changes the state, a changed state moves the controls.

import { element, number } from "./draw.js";

const TICKS = 400; // positions of a slider

export function buildForm(form, state, presets, { moved, released }) {
  const fields = new Map();
  for (const row of [...state.controls, ...["compare", "head", "axis", "theme"].map((name) => state.table.get(name))]) {
    fields.set(row.name, field(form, row, state, { moved, released }));
  }
  const menu = form.querySelector("#preset");
  for (const [value, name] of Object.entries(state.table.get("preset").choices)) menu.append(element("option", { value }, name));
  const shows = form.querySelector("#preset-shows");
  menu.addEventListener("change", () => {
    const preset = presets.find(({ id }) => id === menu.value);
    if (preset) state.reset({ ...preset.state, preset: preset.id });
    else state.set({ preset: "none" });
    released();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  const refresh = () => {
    const chosen = presets.find(({ id }) => id === state.get("preset"));
    menu.value = state.get("preset");
    shows.textContent = chosen?.shows ?? "";
    shows.hidden = !chosen;
    for (const { row, show, block } of fields.values()) {
      block.hidden = !state.used(row);
      show(state.get(row.name));
      if (row.name === "compare") for (const option of block.querySelectorAll("option")) option.hidden = option.value === state.get("method");
    }
  };
  state.addEventListener("change", refresh);
  refresh();
}

function field(form, row, state, { moved, released }) {
  const block = element("label", { class: `field ${row.kind}`, title: row.help ?? "" });
  const name = element("span", {}, row.label);
  const id = `control-${row.name}`;
  block.htmlFor = id;
  block.append(name);
  form.append(block);
  const change = (value) => state.set({ [row.name]: value });
  if (row.kind === "choice") {
    const input = element("select", { id });
    for (const [value, label] of Object.entries(row.choices)) input.append(element("option", { value }, label));
    input.prepend(input.querySelector(`[value="${row.default}"]`)); // a table from JSON has whole numbers before its other names
    input.addEventListener("change", () => { change(input.value); released(); });
    block.append(input);
    return { row, block, show: (value) => { input.value = value; } };
  }
  if (row.kind === "flag") {
    const input = element("input", { id, type: "checkbox" });
    input.addEventListener("change", () => { change(input.checked); released(); });
    block.append(input);
    return { row, block, show: (value) => { input.checked = value; } };
  }
  const slider = element("input", { id, type: "range", min: 0, max: TICKS, step: 1 });
  const exact = element("input", { type: "number", class: "exact", min: row.least, max: row.most, step: "any", "aria-label": `${row.label}, exact value` });
  slider.addEventListener("input", () => { change(fromTick(row, Number(slider.value))); moved(); });
  slider.addEventListener("change", released);
  exact.addEventListener("change", () => {
    const value = row.kind === "whole" ? Math.round(Number(exact.value)) : Number(exact.value);
    const inside = exact.value.trim() !== "" && value >= row.least && value <= row.most;
    if (inside) change(value);
    else exact.value = state.get(row.name);
    released();
  });
  block.append(exact, slider);
  return {
    row, block,
    show: (value) => {
      if (fromTick(row, Number(slider.value)) !== value) slider.value = toTick(row, value);
      if (exact.value === "" || Number(exact.value) !== value) exact.value = value;
      slider.setAttribute("aria-valuetext", number(value));
    },
  };
}

// Sliders move evenly or by factors; values are rounded to what a person would write.
function fromTick(row, tick) {
  const share = tick / TICKS;
  const raw = row.scale === "log" ? row.least * (row.most / row.least) ** share : row.least + (row.most - row.least) * share;
  if (row.kind === "whole") return Math.round(raw < 1000 ? raw : Number(raw.toPrecision(2)));
  if (row.step) return Number((Math.round(raw / row.step) * row.step).toFixed(6));
  return Number(raw.toPrecision(2));
}

function toTick(row, value) {
  const share = row.scale === "log" ? Math.log(value / row.least) / Math.log(row.most / row.least) : (value - row.least) / (row.most - row.least);
  return Math.round(share * TICKS);
}
