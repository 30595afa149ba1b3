// Taking things away: pictures of the charts, the script, the link.

import { CHARTS } from "./charts.js";
import { asSvg } from "./maps.js";
import { element } from "./views.js";

const $ = (id) => document.getElementById(id);

export function addTools(cards) {
  for (const [id, { body, tools, card }] of Object.entries(cards)) {
    for (const format of ["png", "svg"]) {
      const button = element("button", { type: "button", class: "small", "aria-label": `Download ${card.querySelector("h2").textContent} as ${format.toUpperCase()}` }, format.toUpperCase());
      button.addEventListener("click", () => picture(id, body, format));
      tools.append(button);
    }
  }
}

async function picture(id, body, format) {
  const filename = `mixflow-${id}`;
  if (id in CHARTS) {
    if (!body._fullLayout) return;
    const { width, height } = body.getBoundingClientRect();
    await Plotly.downloadImage(body, { format, filename, width, height, scale: format === "png" ? 2 : 1 });
    return;
  }
  if (!body.querySelector("svg")) return;
  const { text, width, height } = asSvg(body);
  const source = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  if (format === "svg") {
    save(source, `${filename}.svg`);
    return;
  }
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = element("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(source);
  canvas.toBlob((blob) => save(URL.createObjectURL(blob), `${filename}.png`));
}

function save(source, name) {
  element("a", { href: source, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(source), 10000);
}

// Files of a finished run.
export function offerDownloads(run) {
  for (const [id, ending] of [["netcdf", "nc"], ["csv", "csv"]]) {
    $(id).href = `/run/${run.key}.${ending}`;
    $(id).removeAttribute("aria-disabled");
  }
}

export function wireSharing(state, clock) {
  $("python").addEventListener("click", async () => {
    const words = new URLSearchParams(state.query());
    words.delete("t");
    if (state.get("t") !== null && clock.run) words.set("t", clock.time);
    const answer = await fetch(`/script.py?${words}`).catch(() => null);
    $("code").value = answer ? await answer.text() : "# The server is gone.";
    $("copied").textContent = "";
    $("dialog").showModal();
    $("code").focus();
    $("code").select();
  });
  $("copy").addEventListener("click", async () => { $("copied").textContent = await copy($("code").value); });
  $("close").addEventListener("click", () => $("dialog").close());
  $("share").addEventListener("click", async () => {
    const query = state.query();
    const said = await copy(`${location.origin}${location.pathname}${query ? `?${query}` : ""}`);
    $("share").textContent = said;
    setTimeout(() => { $("share").textContent = "Copy link"; }, 1500);
  });
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return "copied";
  } catch {
    return "press Ctrl-C to copy";
  }
}
