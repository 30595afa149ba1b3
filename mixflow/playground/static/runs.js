// The runs on screen: what was asked for, the frames that answer, and the trajectories they grow into.

import * as messages from "./messages.js";
import { Trajectory } from "./trajectory.js";
import { number } from "./views.js";

const SLOTS = ["main", "other"]; // the page's own run, and one to compare with
const PATIENCE = 700; // ms after which a run that shows nothing is being compiled
const KINDS = { symmetric: "22 numbers", gram: "exact Gram reduction", full: "every weight" };

// Events: "show" (slot, run) whenever a run has grown, "finished" (run), "view" (id) when a view's arrays came.
export class Runs extends EventTarget {
  constructor(state, link) {
    super();
    this.state = state;
    this.link = link;
    this.shown = { main: null, other: null };
    this.coming = { main: null, other: null }; // asked for, until their first curve replaces what is shown
    this.asked = { main: null, other: null }; // the last request of each slot, as text
    link.addEventListener("frame", ({ detail: { header, arrays } }) => this[`on_${header.kind}`]?.(header, arrays));
    link.addEventListener("open", () => {
      document.body.classList.remove("gone");
      if (!this.main?.done || messages.state() === "gone") this.ask(true);
    });
    link.addEventListener("gone", () => {
      document.body.classList.add("gone");
      messages.status("The server is gone: start it again with “mixflow playground”; this page reconnects by itself.", "gone");
    });
  }

  get main() {
    return this.shown.main;
  }

  ask(again = false) {
    this.request("main", this.state.request(), again);
    const compare = this.state.get("compare");
    if (compare !== "none" && compare !== this.state.get("method") && this.state.used(this.state.table.get("compare"))) {
      this.request("other", this.state.request({ method: compare }), again);
      return;
    }
    if (this.coming.other) this.link.send({ type: "cancel", slot: "other" });
    const gone = this.shown.other;
    this.shown.other = this.coming.other = this.asked.other = null;
    if (gone) this.tell("show", { slot: "other", run: null });
  }

  request(slot, controls, again) {
    const text = JSON.stringify(controls);
    if (text === this.asked[slot] && !again) return;
    if (this.link.send({ type: "run", slot, controls }) === null) return;
    this.asked[slot] = text;
    this.coming[slot] = { id: this.link.number, key: null };
    if (slot === "main") messages.status("asking …", "running");
  }

  // One sample's attention, or the geometry of the hard ones; the answer comes as a "view" event.
  askView(type, more = {}) {
    this.link.send({ type, key: this.main.key, ...more });
  }

  on_accepted({ id, key }) {
    for (const slot of SLOTS) if (this.coming[slot]?.id === id) this.coming[slot].key = key;
  }

  on_start(header) {
    this.each(header.key, (slot, coming) => {
      coming.run = new Trajectory(header);
      if (slot === "main") setTimeout(() => this.explainWaiting(coming), PATIENCE);
    });
  }

  explainWaiting(coming) {
    if (this.coming.main !== coming || coming.run.length) return;
    messages.status("compiling the program for these settings: some seconds, the first time only …", "running");
  }

  on_chunk(header, arrays) {
    this.each(header.key, (slot, { run }) => {
      run.append(header, arrays);
      this.show(slot, run);
      if (slot === "main") messages.status(`computing, t = ${number(run.times[run.length - 1], 3)} of ${number(run.until, 3)}`, "running");
    });
  }

  on_done(header, arrays) {
    this.each(header.key, (slot, { run }) => {
      run.finish(header, arrays);
      this.show(slot, run);
      this.coming[slot] = null;
      if (slot === "main") this.finished(run);
    });
  }

  on_sample(header, arrays) {
    this.view("sample", header, arrays);
  }

  on_geometry(header, arrays) {
    this.view("geometry", header, arrays);
  }

  on_refused(header) {
    for (const slot of SLOTS) {
      const coming = this.coming[slot];
      if (coming && (coming.id === header.id || coming.key === header.key)) this.coming[slot] = null;
    }
    messages.say(header.message);
    messages.status("not run", "refused");
  }

  on_failed(header) {
    this.on_refused(header);
  }

  each(key, act) {
    for (const slot of SLOTS) if (this.coming[slot]?.key === key) act(slot, this.coming[slot]);
  }

  show(slot, run) {
    this.shown[slot] = run;
    this.tell("show", { slot, run });
  }

  finished(run) {
    const how = run.still ? "written down, not trained" : `${KINDS[run.model]}, ${run.length} saves`;
    messages.status(`${how}, ${number(run.seconds, 2)} s`, "done");
    if (run.warning) messages.say(run.warning);
    this.tell("finished", { run });
  }

  view(name, header, arrays) {
    if (this.main?.key !== header.key) return;
    this.main.views[name] = { header, arrays };
    this.tell("view", { name });
  }

  tell(what, detail) {
    this.dispatchEvent(new CustomEvent(what, { detail }));
  }
}
