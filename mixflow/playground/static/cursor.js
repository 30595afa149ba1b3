// The time cursor as it is seen: a line over every chart, the slider's place, the numbers in the read-out.

import { TIMED, element, number } from "./views.js";

const $ = (id) => document.getElementById(id);
const READ = { time: "time", loss: "loss", easy: "loss_easy", hard: "loss_hard", accuracy: "accuracy" };

export function buildReadout() {
  for (const name of [...Object.keys(READ), "stage"]) {
    const pair = element("div");
    pair.append(element("dt", {}, name), element("dd", { id: `read-${name}` }, "–"));
    $("readout").append(pair);
  }
}

export function moveCursor(run, clock, cards) {
  const { time, index } = clock;
  for (const id of TIMED) placeLine(cards[id].body, run.still ? null : time);
  if ($("scrub") !== document.activeElement || clock.playing) $("scrub").value = 1000 * clock.place(time);
  $("scrub").setAttribute("aria-valuetext", `t = ${number(time)}`);
  for (const [name, series] of Object.entries(READ)) {
    $(`read-${name}`).textContent = run.still && name === "time" ? "–" : number(run.at(series, index), 6);
  }
  $("read-stage").textContent = run.stageAt(time)?.name ?? "–";
  document.documentElement.dataset.index = index;
}

// A thin element over the chart: moving it costs nothing, redrawing the chart would.
function placeLine(body, time) {
  const layout = body._fullLayout;
  if (!layout?.xaxis || body.hidden) return;
  let mark = body.querySelector(":scope > .cursor");
  if (!mark) body.append((mark = element("div", { class: "cursor", "aria-hidden": "true" })));
  if (time === null) {
    mark.hidden = true;
    return;
  }
  const { xaxis } = layout;
  const x = xaxis.type === "log" && time <= 0 ? 0 : xaxis.d2p(time);
  mark.hidden = !(x >= 0 && x <= xaxis._length + 1);
  const bottom = layout.height - layout._size.t - layout._size.h;
  Object.assign(mark.style, { left: `${xaxis._offset + x}px`, top: `${layout._size.t}px`, bottom: `${bottom}px` });
}
