// When each view is drawn: the loss first, then whatever is on screen, a few milliseconds in each frame. The document's
// data-painting says whether something on screen is still to be drawn.

import { VIEWS } from "./views.js";

const SLICE = 10; // ms of drawing in a frame, so that a moving slider stays smooth

export class Painter {
  // cards: the views' elements; paintView(id) draws one; settled() is called after each frame of drawing.
  constructor(cards, paintView, settled) {
    Object.assign(this, { paintView, settled, scheduled: false });
    this.dirty = new Set();
    this.hidden = new Set();
    // Only what is on screen is drawn; the rest when it is scrolled to.
    const watcher = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const id = target.querySelector(".body").id;
        if (isIntersecting) this.hidden.delete(id);
        else this.hidden.add(id);
      }
      if (this.dirty.size) this.redraw();
    }, { rootMargin: "200px" });
    for (const { card } of Object.values(cards)) watcher.observe(card);
  }

  redraw(...ids) {
    for (const id of ids) this.dirty.add(id);
    document.documentElement.dataset.painting = "yes";
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => this.paint());
  }

  redrawAll() {
    this.redraw(...VIEWS.map((view) => view.id));
  }

  paint() {
    this.scheduled = false;
    const began = performance.now();
    for (const { id } of VIEWS) {
      if (!this.dirty.has(id) || this.hidden.has(id)) continue;
      this.dirty.delete(id);
      this.paintView(id);
      if (performance.now() - began > SLICE && [...this.dirty].some((other) => !this.hidden.has(other))) {
        this.redraw();
        return;
      }
    }
    this.settled();
    document.documentElement.dataset.painting = "no";
  }
}
