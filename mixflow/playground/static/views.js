// Every view: its title, the sentences that explain it, and where it is drawn.

import { element } from "./draw.js";

export const VIEWS = [
  { id: "network", title: "The network on one sample", stage: true,
    sentence: "Every token asks every token; a line is as thick as the attention. Each of the two heads multiplies what is looked at by what it is worth to it, adds its bias, and speaks only if the sum z is above 0. Head + votes for +, head − for −. Click a token that asks to change it; a token that is looked at, a head name, a neuron or the answer to see its number over time. Drag a neuron up or down to change the bias." },
  { id: "samples", title: "All samples", stage: true,
    sentence: "Every sample there is. Easy: a plain vote of the signals gives the label. Hard: it does not; only the identifier helps. ✓ right, ✗ wrong, ? undecided (the two heads say the same). Click one to see the network on it." },
  { id: "loss", title: "Loss", stage: true,
    sentence: "How wrong the network is on average: over all samples, over the easy and over the hard ones. Shaded: the stages of learning. Click to move the time there; drag to zoom, double-click to see everything; click a name to hide its curve." },
  { id: "neurons", title: "What tokens are worth (w)",
    sentence: "How far the neuron of the chosen head points along every identifier c and every signal v. Signals come first; identifiers follow when the first neuron switches off." },
  { id: "scores", title: "Attention scores over time",
    sentence: "Mean score between identifiers and signals, A[who is looked at, who asks]: of the own pair (k, k) and of other pairs (j, k). Their parting is the discovery of the hidden link." },
  { id: "matrix", title: "Scores by key and query",
    sentence: "The score of every key (row, who is looked at) for every query (column, who asks), for both heads, at the time cursor: blue is positive, orange negative." },
  { id: "attention", title: "Attention inside the sample",
    sentence: "For the chosen sample, how much each query (column, who asks) looks at each key (row, who is looked at): every column sums to one. These are the thicknesses of the lines above." },
  { id: "geometry", title: "Hard samples, as the heads see them",
    sentence: "A head sees a sample only through its attention-averaged tokens (circles: label +, diamonds: label −). The horizontal axis is the direction that separates the labels at the end of the run, the dashed line the boundary: at the start labels lie on top of each other." },
  { id: "sectors", title: "The two sectors",
    sentence: "At infinite width 22 numbers tell everything, for any K: the common sector sees all classes alike, the contrast sector alone knows which identifier belongs to which signal." },
  { id: "switchboard", title: "Switchboard of the neurons", wide: true,
    sentence: "Which head is on (blue), off (pale) or sliding (orange) on which sample over time, at every save; triangles are the switches that the flow solver located." },
];

// The cards, empty; returns {id: {card, body, note, tools}}.
export function buildCards(stage, parent) {
  const cards = {};
  for (const view of VIEWS) {
    const card = element("section", { class: `card card-${view.id}${view.wide ? " wide" : ""}`, "aria-labelledby": `${view.id}-title` });
    const about = element("p", { class: "about", id: `${view.id}-about`, hidden: "" }, view.sentence);
    const why = element("button", { type: "button", class: "why", "aria-expanded": "false", "aria-controls": about.id, "aria-label": `What is this: ${view.title}`, title: view.sentence }, "?");
    why.addEventListener("click", () => {
      about.hidden = !about.hidden;
      why.setAttribute("aria-expanded", String(!about.hidden));
    });
    const tools = element("div", { class: "tools" });
    const head = element("div", { class: "card-head" }, element("h2", { id: `${view.id}-title` }, view.title), why, tools);
    const body = element("div", { class: "body", id: view.id });
    const note = element("p", { class: "note", hidden: "" });
    card.append(head, about, body, note);
    (view.stage ? stage : parent).append(card);
    cards[view.id] = { card, body, note, tools };
  }
  const probe = element("div", { class: "body", id: "probe" });
  const title = element("h3", { id: "probe-title" });
  cards.network.card.append(title, probe);
  cards.probe = { card: cards.network.card, body: probe, note: element("p"), title };
  return cards;
}
