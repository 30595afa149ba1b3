// The page's own engine as a source of runs: what it can compute, and the worker that does.

import { symmetric } from "./tasks.js";

const MOST_CLASSES = { plain: 4, unequal: 4, coherent: 4, noisy: 4, longer: 3 }; // where samples are followed one by one

// Why the page cannot compute these settings by itself, in one sentence with the fix; null: it can.
export function objection(settings) {
  const { method, task, classes: K, network, width, loss, coherence } = settings;
  if (method === "construct") return null;
  if (method === "flow") return "Gradient flow needs Python: pip install mixflow, then mixflow playground; or take gradient descent here.";
  if (task === "coherent" && coherence < -1 / (2 * K - 1)) return `coherence ρ = ${coherence} is impossible between ${2 * K} features: take at least ${(-1 / (2 * K - 1)).toFixed(3)}.`;
  if (symmetric(settings)) return null;
  const most = MOST_CLASSES[task];
  const why = width !== "inf" ? "at finite width" : task !== "plain" ? "with this task" : network !== "paper" ? "with this network" : loss !== "logistic" ? "with this loss" : "with minibatches";
  return K <= most ? null : `K = ${K} ${why} follows ${K}·2^${K} samples one by one, too slow for a page: take K ≤ ${most}, or the paper's task, network and loss at infinite width on all samples.`;
}

// Events: "frame" ({header, arrays}), as those of Link.
export class Local extends EventTarget {
  constructor() {
    super();
    const own = document.getElementById("worker"); // an exported page carries the worker's text
    this.worker = own
      ? new Worker(URL.createObjectURL(new Blob([own.textContent], { type: "text/javascript" })))
      : new Worker("/static/worker.js", { type: "module" });
    this.worker.onmessage = ({ data }) => this.dispatchEvent(new CustomEvent("frame", { detail: data }));
  }

  send(message) {
    this.worker.postMessage(message);
  }
}
