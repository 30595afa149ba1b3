// One time cursor for every view: play, pause, speed, scrub, single step.

const SECONDS = 14; // a whole run at speed 1
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

export class Clock extends EventTarget {
  constructor(state) {
    super();
    this.state = state;
    this.run = null;
    this.playing = null;
    this.stop = null; // where playing ends, null: at the end of the run
  }

  // Where the axis begins: the first save after 0 on a logarithmic one, but not more than five decades before the end.
  static start(run, axis) {
    if (axis === "linear") return 0;
    return Math.max(run.length > 1 ? run.times[1] : 0, run.until * 1e-5) || 1e-3;
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
    this.state.set({ t: this.run.done && time >= last ? null : Number(time.toPrecision(6)) });
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

  // Play from the cursor, or from the start if it stands at the end, to `stop` or to the end. A run that still grows is waited for.
  play(stop = null) {
    this.stop = stop;
    if (this.playing || this.run?.still) return;
    this.playing = {}; // each playing is one of its own: a tick of an earlier one finds that it is over
    this.dispatchEvent(new Event("playing"));
    const mine = this.playing;
    let [place, last] = [null, null];
    const tick = (now) => {
      if (this.playing !== mine) return;
      requestAnimationFrame(tick);
      if (!this.run?.length) return;
      if (place === null) {
        if (this.run.done && this.index === this.run.length - 1) this.state.set({ t: 0 });
        place = this.place(this.time);
      }
      const elapsed = last === null ? 0 : (now - last) / 1000;
      // With reduced motion the cursor jumps twice a second instead of gliding.
      if (STILL.matches && elapsed <= 0.5 && last !== null) return;
      last = now;
      place += (Math.min(elapsed, 1) * Number(this.state.get("speed"))) / SECONDS;
      const most = this.place(this.run.times[this.run.length - 1]);
      const end = this.stop === null ? 1 : this.place(this.stop);
      if (place >= end && (end <= most || this.run.done)) {
        this.state.set({ t: this.stop });
        this.pause();
        return;
      }
      place = Math.min(place, Math.max(most, 0));
      this.moveTo(this.timeAt(place));
    };
    requestAnimationFrame(tick);
  }

  pause() {
    if (!this.playing) return;
    this.playing = null;
    this.dispatchEvent(new Event("playing"));
  }
}
