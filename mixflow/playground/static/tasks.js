// The tasks of the table as lists of samples, in the order of Python's population(): what engine.js and the pictures read.

import { LOSSES } from "./losses.js";

const LISTED = 5; // classes up to which the plain task's samples are shown one by one

// All sign vectors of K signals, + first, the last one changing fastest.
function signVectors(K) {
  return Array.from({ length: 2 ** K }, (_, code) => Array.from({ length: K }, (_, j) => ((code >> (K - 1 - j)) & 1 ? -1 : 1)));
}

function mixture(K, priors) {
  const features = [..."cv"].flatMap((kind) => Array.from({ length: K }, (_, k) => `${kind}${k + 1}`));
  const atoms = [];
  for (let k = 0; k < K; k += 1) {
    for (const signs of signVectors(K)) {
      const tokens = [[k, 1], ...signs.map((sign, j) => [K + j, sign])];
      atoms.push({ tokens, label: signs[k], weight: priors[k] / 2 ** K, hard: signs[k] * signs.reduce((a, b) => a + b) <= 0 });
    }
  }
  return { features, atoms, coherence: 0 };
}

function noisy(task, share, { least }) {
  const twice = (atom) => [{ ...atom, weight: atom.weight * (1 - share) }, { ...atom, label: -atom.label, weight: atom.weight * share, turned: true }];
  return { ...task, atoms: task.atoms.flatMap(twice), least: least(share) };
}

// `count` more tokens ±d1; samples that differ in their order only are one.
function longer(task, count) {
  const d = task.features.length;
  const draws = Array.from({ length: count + 1 }, (_, minus) => ({ minus, chance: choose(count, minus) / 2 ** count }));
  const extended = (atom) => draws.map(({ minus, chance }) => {
    const extra = Array.from({ length: count }, (_, i) => [d, i < count - minus ? 1 : -1]);
    return { ...atom, tokens: [...atom.tokens, ...extra], weight: atom.weight * chance };
  });
  return { ...task, features: [...task.features, "d1"], atoms: task.atoms.flatMap(extended) };
}

function choose(n, k) {
  let value = 1;
  for (let i = 0; i < k; i += 1) value = (value * (n - i)) / (i + 1);
  return value;
}

const equal = (K) => Array(K).fill(1 / K);
export const TASKS = {
  plain: ({ classes: K }) => mixture(K, equal(K)),
  unequal: ({ classes: K, prior }) => mixture(K, [prior, ...Array(K - 1).fill((1 - prior) / (K - 1))]),
  coherent: ({ classes: K, coherence }) => ({ ...mixture(K, equal(K)), coherence }),
  noisy: ({ classes: K, wrong, loss }) => noisy(mixture(K, equal(K)), wrong, LOSSES[loss]),
  longer: ({ classes: K, distractors }) => longer(mixture(K, equal(K)), distractors),
};

// Whether the samples of these settings can be listed one by one.
export function listed({ task, classes }) {
  return task !== "plain" || classes <= LISTED;
}

// Whether the 22 numbers of the mean-field mixture tell everything: the paper's task and network, on all samples at once.
export function symmetric({ task, network, width, loss, batch }) {
  return task === "plain" && network === "paper" && width === "inf" && loss === "logistic" && batch === "all";
}

// features: names; atoms: {tokens: [[feature, sign], …], label, weight, hard, turned}; coherence: Γ off the diagonal;
// loss: of LOSSES; least: the least that any network can have.
export function population(settings) {
  const task = { ...TASKS[settings.task](settings), loss: LOSSES[settings.loss] };
  for (const atom of task.atoms) atom.name = nameOf(task.features, atom);
  return task;
}

function nameOf(features, { tokens, label, turned }) {
  const words = tokens.map(([f, sign]) => (features[f][0] === "c" ? features[f] : `${sign > 0 ? "+" : "-"}${features[f]}`));
  return words.join(" ") + (turned ? ` → ${label}` : "");
}
