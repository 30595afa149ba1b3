// When each view is drawn: what is on screen, from the top, a few milliseconds in each frame. The document's data-painting
// says whether something on screen is still to be drawn.

const SLICE = 8; // ms of drawing in a frame, so that a moving slider stays smooth

export class Painter {
  // cards: the views' elements in their order; paint(id) draws one.
  constructor(cards, paint) {
    Object.assign(this, { order: Object.keys(cards), paintView: paint, scheduled: false });
    this.dirty = new Set();
    this.hidden = new Set();
    // Only what is on screen is drawn; the rest when it is scrolled to.
    const inside = (card) => this.order.filter((id) => cards[id].card === card);
    const watcher = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        for (const id of inside(target)) this.hidden[isIntersecting ? "delete" : "add"](id);
      }
      if (this.dirty.size) this.redraw();
    }, { rootMargin: "100px" });
    const sizes = new ResizeObserver((entries) => this.redraw(...entries.map(({ target }) => target.id)));
    for (const { card, body } of Object.values(cards)) {
      watcher.observe(card);
      sizes.observe(body);
    }
  }

  redraw(...ids) {
    for (const id of ids) this.dirty.add(id);
    document.documentElement.dataset.painting = "yes";
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => this.paint());
  }

  redrawAll() {
    this.redraw(...this.order);
  }

  paint() {
    this.scheduled = false;
    const began = performance.now();
    for (const id of this.order) {
      if (!this.dirty.has(id) || this.hidden.has(id)) continue;
      this.dirty.delete(id);
      this.paintView(id);
      if (performance.now() - began > SLICE && this.order.some((other) => this.dirty.has(other) && !this.hidden.has(other))) {
        this.redraw();
        return;
      }
    }
    document.documentElement.dataset.painting = "no";
  }
}
