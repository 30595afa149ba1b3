// Every view: its title, the one sentence that explains it, and where it is drawn.

export const VIEWS = [
  { id: "loss", title: "Loss", wide: true, timed: true,
    sentence: "Mean loss over all samples, over the easy ones (a plain vote is right) and the hard ones (only the identifier helps); shaded: the detected stages." },
  { id: "neurons", title: "Neuron alignment", timed: true,
    sentence: "How far the neuron w of the chosen head points along every identifier c and every signal v." },
  { id: "scores", title: "Attention scores over time", timed: true,
    sentence: "Mean score between identifiers and signals, own class against other classes: their parting is the discovery of the hidden link." },
  { id: "matrix", title: "Attention scores by key and query",
    sentence: "The score of every key (row) for every query (column), for both heads, at the time cursor." },
  { id: "attention", title: "Attention inside a sample",
    sentence: "For one sample, how much each token (query, row) looks at each token (key, column), for both heads, at the time cursor." },
  { id: "geometry", title: "Geometry of the hard samples",
    sentence: "Attention-averaged features of the hard samples: the horizontal axis is the direction that separates the labels at the end, the dashed line is the decision boundary." },
  { id: "sectors", title: "The two sectors", timed: true,
    sentence: "At infinite width 22 numbers suffice: the common sector sees all classes alike, the contrast sector alone knows which identifier belongs to which signal." },
  { id: "switchboard", title: "Switchboard of the neurons", wide: true, timed: true,
    sentence: "Which head is on, off or sliding on which sample over time; triangles mark the flow's switches." },
];

export const TIMED = VIEWS.filter((view) => view.timed).map((view) => view.id); // charts over time

// The cards, empty; returns {id: {card, body, note, tools}}.
export function buildCards(parent) {
  const cards = {};
  for (const view of VIEWS) {
    const card = element("section", { class: `card${view.wide ? " wide" : ""}`, "aria-labelledby": `${view.id}-title` });
    const head = element("div", { class: "card-head" });
    const title = element("h2", { id: `${view.id}-title` }, view.title);
    const why = element("a", { class: "why", href: `/help#${view.id}`, "aria-label": `About this view: ${view.sentence}` }, "?");
    why.append(element("span", { class: "tip", "aria-hidden": "true" }, view.sentence));
    const tools = element("div", { class: "tools" });
    head.append(title, why, tools);
    const body = element("div", { class: "body", id: view.id, role: "img", "aria-label": `${view.title}. ${view.sentence}` });
    const note = element("p", { class: "note", hidden: "" });
    card.append(head, body, note);
    parent.append(card);
    cards[view.id] = { card, body, note, tools };
  }
  return cards;
}

export function element(name, attributes = {}, text) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Four significant digits, or six, as the scripts print them.
export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e6) return String(Number(value.toPrecision(digits)));
  return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
}
