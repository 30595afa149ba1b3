// The menu of samples above the attention map.

import { element } from "./views.js";

export class Samples {
  constructor(card, state) {
    this.state = state;
    this.menu = element("select", { id: "sample", "aria-label": "Sample" });
    card.card.insertBefore(element("p", { id: "verdict", class: "verdict" }), card.note);
    card.tools.append(this.menu);
    this.menu.addEventListener("change", () => state.set({ sample: Number(this.menu.value) }));
  }

  // The sample the state names, or the last one there is.
  chosen(run) {
    return Math.min(this.state.get("sample"), run.names.atoms.length - 1);
  }

  fill(run) {
    const atoms = run.names?.listed ? run.names.atoms : [];
    if (this.menu.dataset.atoms !== atoms.join()) {
      this.menu.dataset.atoms = atoms.join();
      this.menu.replaceChildren(...atoms.map((atom, i) => element("option", { value: i }, `${atom.replaceAll("-", "−")}${run.names.hard[i] ? "  (hard)" : ""}`)));
    }
    this.menu.hidden = !atoms.length;
    if (atoms.length) this.menu.value = this.chosen(run);
  }
}
