// One time cursor for every view: play, pause, speed, scrub, single step.

const SECONDS = 14; // a whole run at speed 1
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

export class Clock extends EventTarget {
  constructor(state) {
    super();
    this.state = state;
    this.run = null;
    this.playing = false;
  }

  // Where the axis begins: the first save after 0 on a logarithmic one, but not more than five decades before the end.
  static start(run, axis) {
    if (axis === "linear") return 0;
    return Math.max(run.length > 1 ? run.times[1] : 0, run.until * 1e-5);
  }

  // Between the cursor's time and its place 0 … 1 on the axis.
  place(time) {
    const axis = this.state.get("axis");
    const [low, high] = [Clock.start(this.run, axis), this.run.until];
    if (this.run.still) return 1;
    if (axis === "linear") return time / high;
    return time <= low ? 0 : Math.log(time / low) / Math.log(high / low);
  }

  timeAt(place) {
    const axis = this.state.get("axis");
    const [low, high] = [Clock.start(this.run, axis), this.run.until];
    return axis === "linear" ? place * high : place <= 0 ? 0 : low * (high / low) ** place;
  }

  get index() {
    return this.run ? this.run.nearest(this.state.get("t")) : 0;
  }

  get time() {
    return this.run && this.run.length ? this.run.times[this.index] : 0;
  }

  // The end of the run is no particular time: the cursor stays at the end when the run changes.
  moveTo(time) {
    const last = this.run.times[this.run.length - 1];
    this.state.set({ t: time >= last ? null : Number(time.toPrecision(6)) });
  }

  step(by) {
    if (this.run.still) return;
    this.pause();
    const index = Math.max(0, Math.min(this.run.length - 1, this.index + by));
    this.state.set({ t: index === this.run.length - 1 ? null : this.run.times[index] });
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (!this.run || !this.run.length || this.run.still || this.playing) return;
    this.playing = true;
    if (this.index === this.run.length - 1) this.state.set({ t: 0 });
    let place = this.place(this.time);
    let last = null;
    const tick = (now) => {
      if (!this.playing) return;
      const elapsed = last === null ? 0 : (now - last) / 1000;
      // With reduced motion the cursor jumps twice a second instead of gliding.
      if (!STILL.matches || elapsed > 0.5 || last === null) {
        last = now;
        place += (Math.min(elapsed, 1) * Number(this.state.get("speed"))) / SECONDS;
        if (place >= 1) {
          this.state.set({ t: null });
          this.pause();
          return;
        }
        this.moveTo(this.timeAt(place));
      }
      requestAnimationFrame(tick);
    };
    this.dispatchEvent(new Event("playing"));
    requestAnimationFrame(tick);
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.dispatchEvent(new Event("playing"));
  }
}
