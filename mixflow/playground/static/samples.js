// All samples as small tiles: their tokens, easy or hard, and what the network says of each at the time cursor.

import { chip, element, put, write } from "./draw.js";

const MARKS = { right: "✓", wrong: "✗", undecided: "?" };

export class Samples {
  constructor(body, state) {
    Object.assign(this, { body, state, signature: "" });
  }

  // The sample the state names, or the last one there is.
  chosen(run) {
    return Math.min(this.state.get("sample"), run.names.atoms.length - 1);
  }

  // The sample in which this token of the chosen one is another: a signal with the other sign, or the next identifier.
  turn(run, place) {
    const { tokens, features } = run.names;
    const K = features.filter((name) => name[0] === "c").length;
    const word = (list) => list.map(String).sort().join(); // the order of tokens means nothing
    const wanted = word(tokens[this.chosen(run)].map(([f, sign], i) => (i !== place ? [f, sign] : f < K ? [(f + 1) % K, sign] : [f, -sign])));
    this.state.set({ sample: tokens.findIndex((list) => word(list) === wanted) });
  }

  show(run, index) {
    const signature = run.names.atoms.join();
    if (signature !== this.signature) this.build(run);
    this.signature = signature;
    const chosen = this.chosen(run);
    const counts = { right: 0, wrong: 0, undecided: 0 };
    this.tiles.forEach(({ tile, mark }, a) => {
      const verdict = run.verdict(index, a);
      counts[verdict] += 1;
      put(tile, { class: `sample sample-${verdict}`, "aria-pressed": String(a === chosen) });
      write(mark, MARKS[verdict]);
    });
    write(this.sum, `${counts.right} right · ${counts.undecided} undecided · ${counts.wrong} wrong`);
  }

  build(run) {
    const { atoms, tokens, labels, hard, features } = run.names;
    const few = atoms.length <= 24;
    this.sum = element("p", { class: "tally" });
    const grid = element("div", { class: `samples${few ? "" : " many"}` });
    this.tiles = atoms.map((name, a) => {
      const mark = element("span", { class: "sample-mark" });
      const words = `${name.replaceAll("-", "−")}, label ${labels[a] > 0 ? "+" : "−"}, ${hard[a] ? "hard" : "easy"}`;
      const tile = element("button", { type: "button", title: words, "aria-label": words }, mark);
      tile.append(...tokens[a].map(([f, sign]) => chip(features[f], sign)));
      tile.append(element("span", { class: "sample-label" }, `→ ${labels[a] > 0 ? "+" : "−"}`));
      if (few) tile.append(element("span", { class: hard[a] ? "badge badge-hard" : "badge" }, hard[a] ? "hard" : "easy"));
      tile.addEventListener("click", () => this.state.set({ sample: a }));
      grid.append(tile);
      return { tile, mark };
    });
    const longest = Math.max(...tokens.map((list) => list.length));
    grid.style.gridTemplateColumns = `repeat(auto-fill, minmax(${few ? 100 + 37 * longest : 72 + 24 * longest}px, 1fr))`;
    this.body.replaceChildren(this.sum, grid);
  }
}
