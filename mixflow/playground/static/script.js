// "Copy as Python": the settings as a program that trains the same run and prints the numbers at the cursor.

import { stride } from "./record.js";
import { symmetric } from "./tasks.js";

const NUMBERS = ["loss", "loss_easy", "loss_hard", "accuracy"];

const mixture = (c) => `mf.Mixture(classes=${c.classes})`;
const TASKS = {
  plain: mixture,
  unequal: ({ classes: K, prior: p }) => `mf.Mixture(classes=${K}, priors=[${p}] + [(1 - ${p}) / ${K - 1}] * ${K - 1})`,
  coherent: (c) => `mf.variants.coherent(classes=${c.classes}, coherence=${c.coherence})`,
  noisy: (c) => `mf.variants.label_noise(task=${mixture(c)}, probability=${c.wrong})`,
  longer: (c) => `mf.variants.distractors(task=${mixture(c)}, count=${c.distractors})`,
};

const NETWORKS = { paper: "", shared: ", shared_attention=True", direct: ', attention="direct"', linear: ', activation="linear"', sum: ', queries="sum"' };

const descent = (c, steps, every) => `mf.GradientDescent(learning_rate=${c.learning_rate}, steps=${steps}, save_every=${every}${c.batch === "all" ? "" : `, batch_size=${c.batch}, batch_seed=${c.batch_seed}`})`;
const METHODS = {
  gd: (c, time) => descent(c, c.steps, saveEvery(c.steps, c.learning_rate, time)),
  flow: (c) => `mf.GradientFlow(until=${c.until})`,
  three: (c, time) => {
    const steps = Math.round((c.neurons + c.attention + c.converge) / c.learning_rate);
    return `mf.ThreeStage(method=${descent(c, steps, saveEvery(steps, c.learning_rate, time))}, neurons=${c.neurons}, attention=${c.attention}, converge=${c.converge})`;
  },
};

// The widest grid that holds the cursor's save; the ends of runs and of stages are saved on any grid.
function saveEvery(steps, rate, time) {
  let every = stride(steps);
  const step = time === null ? 0 : Math.round(time / rate);
  while (every > 1 && step % every) every /= 2;
  return every;
}

const python = (flag) => (flag ? "True" : "False");

export function script(c, time) {
  if (c.method === "construct") {
    return `import mixflow as mf

net = mf.construct(classes=${c.classes}, target_margin=${c.target_margin}, bias=${c.bias})
shown = net.evaluate()
for name in ${tuple(NUMBERS)}:
    print(f"{name} = {getattr(shown, name):.6g}")
print(f"margin = {net.margin:.6g} on every sample")
`;
  }
  const width = c.width === "inf" ? "math.inf" : c.width;
  const transformer = `mf.Transformer(width=${width}, omega=${c.omega}, bias=${c.bias}, tie_values=${python(c.tie_values)}${NETWORKS[c.network]}${c.width === "inf" ? "" : `, seed=${c.seed}`})`;
  const at = time === null ? "isel(time=-1)" : `sel(time=${time}, method="nearest")`;
  const other = c.loss !== "logistic";
  const lines = [...(c.width === "inf" ? ["import math"] : []), ...(other ? ["from dataclasses import replace"] : [])];
  const task = other ? `replace(${TASKS[c.task](c)}, loss="${c.loss}")` : TASKS[c.task](c);
  return `${lines.length ? `${lines.join("\n")}\n\n` : ""}import mixflow as mf

run = mf.train(
    ${task},
    ${transformer},
    ${METHODS[c.method](c, time)},
)
shown = run.dataset.${at}  # the time cursor
for name in ${tuple(["time", ...NUMBERS])}:
    print(f"{name} = {float(shown[name]):.6g}")
for stage in run.stages:
    print(stage)
${c.proof && c.method === "flow" && symmetric({ ...c, batch: "all" }) && !c.tie_values ? "print(mf.prove(run.task, run.transformer).statement())\n" : ""}`;
}

function tuple(words) {
  return `(${words.map((word) => `"${word}"`).join(", ")})`;
}
