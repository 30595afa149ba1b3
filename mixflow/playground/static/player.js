// Play, pause, step, scrub and speed: the buttons and keys of the clock, and the numbers beside them.

import { $, element, number, write } from "./draw.js";

const READ = { time: "time", loss: "loss", easy: "loss_easy", hard: "loss_hard" };

export function wirePlayer(state, clock) {
  for (const name of [...Object.keys(READ), "right", "stage"]) {
    $("readout").append(element("div", {}, element("dt", {}, name), element("dd", { id: `read-${name}` }, "–")));
  }
  for (const [value, label] of Object.entries(state.table.get("speed").choices)) $("speed").append(element("option", { value }, label));
  $("speed").value = state.get("speed");
  $("speed").addEventListener("change", () => state.set({ speed: $("speed").value }));
  $("play").addEventListener("click", () => clock.toggle());
  $("back").addEventListener("click", () => clock.step(-1));
  $("forward").addEventListener("click", () => clock.step(1));
  $("scrub").addEventListener("input", () => {
    if (!clock.run) return;
    clock.pause();
    clock.moveTo(clock.timeAt(Number($("scrub").value) / 1000));
  });
  clock.addEventListener("playing", () => {
    $("play").textContent = clock.playing ? "❚❚ pause" : "▶︎ play";
    $("play").setAttribute("aria-label", clock.playing ? "Pause" : "Play");
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, button, a, dialog, [role=button]") || event.ctrlKey || event.metaKey || event.altKey || !clock.run) return;
    const act = { " ": () => clock.toggle(), ArrowLeft: () => clock.step(-1), ArrowRight: () => clock.step(1) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
}

// What was never trained has no time to move through.
export function showMoves(run) {
  for (const id of ["play", "back", "forward", "scrub", "speed"]) $(id).disabled = run.still;
}

// The slider's place and the numbers at the cursor.
export function showTime(run, clock) {
  const { time, index } = clock;
  if ($("scrub") !== document.activeElement || clock.playing) $("scrub").value = 1000 * clock.place(time);
  $("scrub").setAttribute("aria-valuetext", `t = ${number(time)}`);
  for (const [name, series] of Object.entries(READ)) {
    write($(`read-${name}`), run.still && name === "time" ? "–" : number(run.at(series, index), 6));
  }
  write($("read-right"), `${number(100 * run.right(index), 3)} %`);
  write($("read-stage"), run.stageAt(time)?.name ?? "–");
  document.documentElement.dataset.index = index;
}
