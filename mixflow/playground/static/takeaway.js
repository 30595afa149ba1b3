// Taking things away: pictures of the charts, the numbers, the script, the link.

import { $, element } from "./draw.js";
import { script } from "./script.js";

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "font-size", "font-weight", "text-anchor", "visibility", "paint-order"];

export function addTools(cards) {
  for (const [id, { body, tools, card }] of Object.entries(cards)) {
    if (!tools || id === "samples") continue;
    for (const format of ["png", "svg"]) {
      const button = element("button", { type: "button", class: "small", "aria-label": `Download ${card.querySelector("h2").textContent} as ${format.toUpperCase()}` }, format.toUpperCase());
      button.addEventListener("click", () => picture(id, body, format));
      tools.append(button);
    }
  }
}

// All drawings of a body side by side as one SVG file, with the colours they have now.
function asSvg(body) {
  const sheets = [...body.querySelectorAll(":scope > svg")];
  const boxes = sheets.map((sheet) => sheet.viewBox.baseVal);
  const width = boxes.reduce((sum, box) => sum + box.width + 16, 0);
  const height = Math.max(...boxes.map((box) => box.height));
  let at = 0;
  const parts = sheets.map((sheet, i) => {
    const copy = sheet.cloneNode(true);
    const [seen, made] = [sheet.querySelectorAll("*"), copy.querySelectorAll("*")];
    seen.forEach((child, j) => {
      const style = getComputedStyle(child);
      for (const name of KEPT) if (style.getPropertyValue(name)) made[j].setAttribute(name, style.getPropertyValue(name));
      made[j].removeAttribute("class");
    });
    const text = `<g transform="translate(${at} 0)">${copy.innerHTML}</g>`;
    at += boxes[i].width + 16;
    return text;
  });
  const ground = getComputedStyle(body.closest(".card")).backgroundColor;
  return { width, height, text: `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif"><rect width="${width}" height="${height}" fill="${ground}"/>${parts.join("")}</svg>` };
}

async function picture(id, body, format) {
  if (!body.querySelector(":scope > svg")) return;
  const { text, width, height } = asSvg(body);
  const source = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  if (format === "svg") {
    save(source, `mixflow-${id}.svg`);
    return;
  }
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = element("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(source);
  canvas.toBlob((blob) => save(URL.createObjectURL(blob), `mixflow-${id}.png`));
}

function save(source, name) {
  element("a", { href: source, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(source), 10000);
}

// One row for each save, one column for each number, named as in the dataset.
export function table(run) {
  const { features: f, atoms } = run.names;
  const heads = ["+", "-"];
  const kinds = ["c", "v"];
  const axes = {
    scores: [run.names.lines.map((line) => line.split("  ")[0])], w: [heads, f], A: [heads, f, f], margin: [atoms], z: [heads, atoms],
    A_sector: [["common", "contrast"], kinds, kinds], w_kind: [heads, kinds],
  };
  const columns = [];
  for (const [name, { shape, data }] of Object.entries(run.series)) {
    const labels = (axes[name] ?? []).reduce((all, axis) => all.flatMap((word) => axis.map((x) => (word ? `${word},${x}` : x))), [""]);
    const width = shape.slice(1).reduce((a, b) => a * b, 1);
    labels.forEach((label, i) => columns.push({ name: label ? `${name}[${label}]` : name, at: (row) => data[row * width + i] }));
  }
  const quote = (words) => (/[",]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words);
  const rows = Array.from({ length: run.length }, (_, row) => columns.map(({ at }) => at(row)).join(","));
  return `${[columns.map(({ name }) => quote(name)).join(","), ...rows].join("\n")}\n`;
}

export function wireTakeaway(state, clock, runs) {
  $("python").addEventListener("click", () => {
    const time = state.get("t") === null || !clock.run ? null : clock.time;
    $("code").value = script(state.request(), time);
    $("copied").textContent = "";
    $("dialog").showModal();
    $("code").focus();
    $("code").select();
  });
  $("copy").addEventListener("click", async () => { $("copied").textContent = await copy($("code").value); });
  $("close").addEventListener("click", () => $("dialog").close());
  $("share").addEventListener("click", async () => {
    const query = state.query();
    const said = await copy(`${location.href.split("#")[0]}${query ? `#${query}` : ""}`);
    $("share").textContent = said;
    setTimeout(() => { $("share").textContent = "Copy link"; }, 1500);
  });
  $("csv").addEventListener("click", () => {
    if (runs.main?.done) save(URL.createObjectURL(new Blob([table(runs.main)], { type: "text/csv" })), "mixflow-run.csv");
  });
  $("netcdf").hidden = !runs.link;
  $("netcdf").addEventListener("click", () => { if (runs.main?.done) runs.file(); });
  runs.addEventListener("file", ({ detail: { key } }) => element("a", { href: `/run/${key}.nc`, download: "" }).click());
}

async function copy(words) {
  try {
    await navigator.clipboard.writeText(words);
    return "copied";
  } catch {
    return "press Ctrl-C to copy";
  }
}
