// The runs on screen: what was asked for, who computes it (the page itself wherever it can, else the server), and the
// trajectories the answers grow into.

import { number } from "./draw.js";
import { objection } from "./local.js";
import * as messages from "./messages.js";
import { Trajectory } from "./trajectory.js";

const SLOTS = ["main", "other"]; // the page's own run, and one to compare with
const PATIENCE = 700; // ms after which a run that shows nothing is being compiled
const KINDS = { symmetric: "22 numbers", gram: "exact Gram reduction", full: "every weight" };
const GONE = "The server is gone: start it again with “mixflow playground” and open the address it prints, or take gradient descent, which this page computes by itself.";

// Events: "show" ({slot, run}) whenever a run has grown, "finished" ({run}), "file" ({key}) when the server has a run to download.
export class Runs extends EventTarget {
  // local: the page's engine; link: the server, or null where there is none
  constructor(state, local, link) {
    super();
    Object.assign(this, { state, local, link, number: 0 });
    this.shown = { main: null, other: null };
    this.coming = { main: null, other: null }; // asked for, until their first curve replaces what is shown
    this.asked = { main: null, other: null }; // the last request of each slot, as text
    for (const source of [local, link]) {
      source?.addEventListener("frame", ({ detail: { header, arrays } }) => this[`on_${header.kind}`]?.(header, arrays, source));
    }
    link?.addEventListener("open", () => {
      if (this.lost) messages.say("");
      this.lost = false;
      if (this.waiting) this.ask(true);
    });
    link?.addEventListener("gone", () => { if (SLOTS.some((slot) => this.coming[slot]?.source === link)) this.away(); });
  }

  get main() {
    return this.shown.main;
  }

  away() {
    this.waiting = this.lost = true;
    messages.status("The server is gone.", "gone");
    messages.say(GONE);
  }

  ask(again = false) {
    this.waiting = false;
    this.request("main", this.state.request(), again);
    const compare = this.state.get("compare");
    if (compare !== "none" && compare !== this.state.get("method") && this.state.used(this.state.table.get("compare"))) {
      this.request("other", this.state.request({ method: compare }), again);
      return;
    }
    this.coming.other?.source.send({ type: "cancel", slot: "other", id: this.coming.other.id });
    const gone = this.shown.other;
    this.shown.other = this.coming.other = this.asked.other = null;
    if (gone) this.tell("show", { slot: "other", run: null });
  }

  request(slot, controls, again) {
    const text = JSON.stringify(controls);
    if (text === this.asked[slot] && !again) return;
    this.asked[slot] = text;
    const why = objection(controls);
    const source = why === null ? this.local : this.link;
    this.number += 1;
    const before = this.coming[slot];
    if (before && before.source !== source) before.source.send({ type: "cancel", slot, id: before.id });
    this.coming[slot] = null;
    if (!source) { this.refuse(why); return; }
    if (source === this.link && !source.open) {
      this.coming[slot] = { source };
      if (source.gone) this.away();
      else this.waiting = true; // it is being called: it answers, or it is gone
      return;
    }
    this.coming[slot] = { id: this.number, key: source === this.local ? `own-${text}` : null, source };
    source.send({ type: "run", slot, id: this.number, controls, ...(source === this.local && { key: this.coming[slot].key }) });
    if (slot === "main") messages.status("computing …", "running");
  }

  // Have the server compute the page's own run too, to hand it out as a file.
  file() {
    if (!this.main.local) { this.tell("file", { key: this.main.key }); return; }
    this.number += 1;
    this.filing = { id: this.number, key: null };
    this.link.send({ type: "run", slot: "file", id: this.number, controls: this.state.request() });
    messages.status("the server computes the run for its file …", "running");
  }

  on_accepted({ id, key }) {
    for (const slot of SLOTS) if (this.coming[slot]?.id === id) this.coming[slot].key = key;
    if (this.filing?.id === id) this.filing.key = key;
  }

  on_start(header, _, source) {
    this.each(header.key, (slot, coming) => {
      coming.run = new Trajectory({ ...header, local: source === this.local });
      if (slot === "main") setTimeout(() => this.explainWaiting(coming), PATIENCE);
    });
  }

  explainWaiting(coming) {
    if (this.coming.main !== coming || coming.run.length || coming.run.local) return;
    messages.status("compiling the program for these settings: some seconds, the first time only …", "running");
  }

  on_chunk(header, arrays) {
    this.each(header.key, (slot, { run }) => {
      run.append(header, arrays);
      this.show(slot, run);
      if (slot === "main") messages.status(`computing, t = ${number(run.times[run.length - 1], 3)} of ${number(run.until, 3)}`, "running");
    });
  }

  on_proving({ key }) {
    this.each(key, (slot) => { if (slot === "main") messages.status("proving: every rounding error is bounded, some seconds …", "running"); });
  }

  on_done(header, arrays) {
    if (this.filing?.key === header.key) {
      this.filing = null;
      messages.status("file ready", "done");
      this.tell("file", { key: header.key });
    }
    this.each(header.key, (slot, { run }) => {
      run.finish(header, arrays);
      this.coming[slot] = null;
      this.show(slot, run);
      if (slot === "main") this.finished(run);
    });
  }

  on_refused(header) {
    for (const slot of SLOTS) {
      const coming = this.coming[slot];
      if (coming && (coming.id === header.id || (header.key && coming.key === header.key))) this.coming[slot] = null;
    }
    this.refuse(header.message);
  }

  on_failed(header) {
    this.on_refused(header);
  }

  refuse(why) {
    messages.say(why);
    messages.status("not run", "refused");
  }

  each(key, act) {
    for (const slot of SLOTS) if (this.coming[slot]?.key === key) act(slot, this.coming[slot]);
  }

  show(slot, run) {
    this.shown[slot] = run;
    this.tell("show", { slot, run });
  }

  finished(run) {
    const how = run.still ? "written down, not trained" : `${run.length} saves, ${KINDS[run.model] ?? run.model}`;
    messages.status(`computed ${run.local ? "in this page" : "by the server"} in ${number(run.seconds, 2)} s (${how})`, "done");
    if (run.warning) messages.say(run.warning);
    this.tell("finished", { run });
  }

  tell(what, detail) {
    this.dispatchEvent(new CustomEvent(what, { detail }));
  }
}
