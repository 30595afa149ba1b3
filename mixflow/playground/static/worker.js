// The page's own engine, in a thread of its own. It answers as the server does: start, chunks of saves, done; or refused.

import { minibatches } from "./batches.js";
import { Gram, Symmetric } from "./engine.js";
import { Recorder, nextSave } from "./record.js";
import { stages } from "./stages.js";
import { listed, population, symmetric } from "./tasks.js";

const SLICE = 25; // ms of work between two looks at the letter box
const CHUNK = 150; // ms between two chunks of a long run

// What moves until which step: [{until, w, A}].
export function schedule({ method, learning_rate: rate, steps, neurons, attention, converge }) {
  if (method === "construct") return [];
  if (method === "gd") return [{ until: steps, w: true, A: true }];
  let until = 0;
  return [[neurons, true], [attention, false], [converge, true]].map(([length, w]) => {
    until += Math.max(1, Math.floor(length / rate + 0.5));
    return { until, w, A: !w };
  });
}

export function start(asked) {
  const written = asked.method === "construct";
  const settings = written ? { ...asked, task: "plain", network: "paper", width: "inf", loss: "logistic", batch: "all", omega: 0, tie_values: false } : asked;
  const task = listed(settings) ? population(settings) : null;
  const system = symmetric(settings) ? new Symmetric(settings.classes, settings) : new Gram(task, settings);
  if (written) system.construct(settings.target_margin);
  const draw = settings.batch === "all" ? null : minibatches(system.weight.slice(), Number(settings.batch), settings.batch_seed);
  return { system, task, draw };
}

// Train, and call tell(kind, header, arrays) on the way; rest() is awaited between slices and says whether to go on.
export async function train(settings, tell, rest) {
  const began = performance.now();
  const { system, task, draw } = start(settings);
  const recorder = new Recorder(system, task);
  const rate = settings.learning_rate;
  const parts = schedule(settings);
  const last = parts.at(-1)?.until ?? 0;
  tell("start", { until: rate * last, model: recorder.symmetric ? "symmetric" : "gram" });
  let [looked, told] = [began, began - CHUNK]; // the first chunk goes out with the first slice
  let [at, warning, first] = [0, null, true];
  const names = () => (first ? ((first = false), { names: recorder.names() }) : {});
  const whole = [];
  const chunk = () => { const arrays = recorder.take(); whole.push(arrays); return arrays; };
  recorder.save(0);
  for (const { until, w, A } of parts) {
    while (at < until && !warning) {
      const target = Math.min(nextSave(at, last), until);
      for (; at < target; at += 1) {
        draw?.(at, system.weight);
        system.step(w ? rate : 0, A ? rate : 0);
      }
      if (!recorder.save(rate * at)) warning = `the run diverged before step ${at} with learning rate ${rate}: lower it.`;
      const now = performance.now();
      if (now - looked < SLICE) continue;
      looked = now;
      if (now - told > CHUNK) { told = now; tell("chunk", names(), chunk()); }
      if (!(await rest())) return;
    }
  }
  const arrays = chunk();
  const switches = settings.method === "three" ? parts.slice(0, 2).map(({ until }) => rate * until) : null;
  tell("done", { ...names(), events: [], warning, seconds: (performance.now() - began) / 1000, stages: stages(joined(whole), recorder.names(), switches) }, arrays);
}

function joined(parts) {
  const whole = {};
  for (const name of Object.keys(parts[0])) {
    const shape = parts[0][name].shape;
    const data = new Float64Array(parts.reduce((sum, part) => sum + part[name].data.length, 0));
    let at = 0;
    for (const part of parts) { data.set(part[name].data, at); at += part[name].data.length; }
    whole[name] = { shape: [parts.reduce((sum, part) => sum + part[name].shape[0], 0), ...shape.slice(1)], data };
  }
  return whole;
}

// Letters: {type: "run", slot, id, key, controls} and {type: "cancel", slot}.
if (typeof WorkerGlobalScope !== "undefined") {
  const wanted = {};
  // setTimeout waits 4 ms each time; a message to oneself does not
  const channel = new MessageChannel();
  const waiting = [];
  channel.port1.onmessage = () => waiting.shift()();
  const pause = () => new Promise((resume) => { waiting.push(resume); channel.port2.postMessage(0); });
  self.onmessage = async ({ data: { type, slot, id, key, controls } }) => {
    wanted[slot] = type === "run" ? id : null;
    if (type !== "run") return;
    const tell = (kind, header, arrays = {}) => {
      if (wanted[slot] === id) self.postMessage({ header: { kind, id, key, ...header }, arrays });
    };
    try {
      await train(controls, tell, async () => { await pause(); return wanted[slot] === id; });
    } catch (error) {
      tell("failed", { message: `the page's engine failed: ${error.message}` });
    }
  };
}
