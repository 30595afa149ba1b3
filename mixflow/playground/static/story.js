// The story in five steps, for someone who knows nothing of all this: each sets the page, says a sentence and asks a question.

import { $, chip, element, number } from "./draw.js";

const HARD = 1; // c1 +v1 −v2, a sample whose signals disagree
const HARD_OF_THREE = 3; // c1 +v1 −v2 −v3, outvoted

// set: the page's settings; from, to: the stretch of time that is played, as functions of the run; say, ask, tell: texts, which
// may name times of the run on screen.
const STEPS = [
  {
    title: "A puzzle", set: { sample: HARD },
    say: () => "A sample is a row of tokens: one identifier, c1 or c2, like a name tag, and two signals, v1 and v2, each + or −. A hidden rule turns it into + or −. Nobody tells the network the rule either: below it starts from nothing and finds out.",
    ask: "Can you find the rule before it does?", puzzle: true,
    tell: () => "The identifier says which signal counts: with c1 the answer is the sign of v1, with c2 that of v2. It means nothing by itself, and neither do the signals: one has to find out who belongs to whom.",
  },
  {
    title: "Averaging fails", set: { sample: HARD, method: "three", neurons: 1000, attention: 1, converge: 1 }, to: (run) => run.stage("neurons").end,
    say: () => "Here attention is frozen: every token looks at all tokens alike, so the network can only add the signals up. Watch the tiles: half of them come right, half never do.",
    ask: "Which samples can it not decide, and why?",
    tell: (run) => `Those whose signals disagree: +1 − 1 = 0, whatever the identifier says. Such samples are called hard: a plain vote of the signals does not give the answer, only the identifier can. Where the signals agree a vote is enough; those are easy. The loss cannot fall below ½ ln 2 = 0.347, the price of a blind guess on half of the samples; here it has come to ${number(run.at("loss", run.nearest(run.stage("neurons").end)), 3)}.`,
  },
  {
    title: "Neurons learn", set: { sample: HARD, probe: "w0" }, to: (run) => 1.6 * (run.stage("neurons")?.end ?? 12),
    say: () => "Now everything may move at once, and again the neurons come first: in head + the signals become worth something (the bars), and the easy samples come right. The lines hardly change.",
    ask: "Why do the neurons come first?",
    tell: (run) => `At the start every token is worth 0 to the neurons. Then it makes no difference where one looks, and nothing pushes the attention anywhere. Only when signals are worth something does looking at the right one pay. And as long as both neurons are on, identifiers make no difference either: that ends when the first neuron switches off, at t ≈ ${number(run.stage("neurons")?.end ?? NaN, 3)}.`,
  },
  {
    title: "Attention finds the pair", set: { sample: HARD, probe: "k0" }, from: (run) => run.stage("neurons")?.end ?? 0, to: (run) => 1.5 * (run.stage("attention")?.end ?? 300),
    say: () => "The loss waits on a plateau, as if nothing happened. But the lines begin to part: a signal begins to treat its own identifier in one way, and the other identifier in the opposite way.",
    ask: "Click another hard sample, or a token on the left to change it: who looks at the identifier in head +, who in head −?",
    tell: (run) => `Attention has learned who belongs to whom: c1 and v1, c2 and v2. In head + the identifier is worth a lot, so a look at it is a vote for +. Its own signal looks at it if it is +, and looks away if it is −; the other signal does the opposite, so that its vote cancels. Head − mirrors this. At t ≈ ${number(run.stage("attention")?.end ?? NaN, 3)} half of the hard samples' loss is gone.`,
  },
  {
    title: "It converges", set: { sample: HARD }, from: (run) => run.stage("attention")?.end ?? 0,
    say: () => "All samples are right, and every margin goes on growing: the loss falls to zero like 1/t.",
    ask: "What is different with three pairs (K = 3)?", button: ["Show me three pairs", { classes: 3, steps: 40000, sample: HARD_OF_THREE }],
    tell: (run) => `The same three stages, only longer: more identifiers and signals must find each other${run.names.features.filter((f) => f[0] === "c").length === 3 ? `, here until t ≈ ${number(run.stage("attention")?.end ?? NaN, 3)}` : ""}. And with three votes there is always a majority, so a hard sample is not undecided at first but wrong: its own signal is outvoted by two that do not count. Hard are one in four, not one in two.`,
  },
];

export class Story {
  // set(settings): give the page these and run, true if a new run is coming; play(from, to): times or null
  constructor(state, { set, play }) {
    Object.assign(this, { state, set, play, run: null, waiting: null, score: { right: 0, of: 0 } });
    this.panel = $("story");
    $("story-open").addEventListener("click", () => this.go(1));
    state.addEventListener("change", ({ detail }) => { if (detail.has("step")) this.show(); });
    this.show();
  }

  go(step) {
    this.begin({ ...STEPS[step - 1].set, step: String(step) }, "step");
  }

  // Set the page, and play when its run is there: a new one, or the one on screen if that is the same.
  begin(settings, how) {
    this.waiting = null;
    const coming = this.set({ ...settings, t: 0 });
    this.waiting = how;
    if (!coming) this.show();
  }

  // A run is on screen. A step that plays all of it begins at once, one that plays a stage when the stages are known.
  show(run = this.run) {
    const known = run?.done && run.names?.listed ? run : null;
    const step = Number(this.state.get("step")) || 0;
    this.panel.hidden = !step;
    $("story-open").hidden = Boolean(step);
    if (step && (step !== this.step || known !== this.run)) this.build(step, known);
    Object.assign(this, { run: known, step });
    if (!step || !this.waiting || !run?.length) return;
    const { from, to } = this.waiting === "all" ? {} : STEPS[step - 1];
    if ((from || to) && !known) return;
    this.waiting = null;
    this.play(from ? from(known) : 0, to ? to(known) : null);
  }

  build(step, run) {
    const told = this.step === step && this.panel.querySelector(".told:not([hidden])");
    const { title, say, ask, tell, puzzle, button } = STEPS[step - 1];
    const tabs = STEPS.map(({ title: name }, i) => {
      const tab = element("button", { type: "button", class: "tab", "aria-current": i + 1 === step ? "step" : "false" }, element("b", {}, String(i + 1)), ` ${name}`);
      tab.addEventListener("click", () => this.go(i + 1));
      return tab;
    });
    const close = element("button", { type: "button", class: "small", id: "story-close" }, "Explore freely");
    close.addEventListener("click", () => this.state.set({ step: "none" }));
    const answer = element("p", { class: "told", hidden: "" }, run ? tell(run) : "");
    answer.hidden = !told;
    const reveal = element("button", { type: "button", class: "small", id: "tell" }, puzzle ? "Tell me the rule" : "Tell me");
    reveal.addEventListener("click", () => { answer.hidden = false; });
    const asked = element("p", { class: "ask" }, element("b", {}, ask), " ", reveal);
    if (button) {
      const more = element("button", { type: "button", class: "small", id: "story-more" }, button[0]);
      more.addEventListener("click", () => { answer.hidden = false; this.begin({ ...button[1], step: String(step) }, "all"); });
      asked.append(" ", more);
    }
    const next = element("button", { type: "button", id: "next", class: "next" }, step < STEPS.length ? "Next →" : "Explore freely →");
    next.addEventListener("click", () => (step < STEPS.length ? this.go(step + 1) : this.state.set({ step: "none" })));
    const text = element("div", { class: "story-text" }, element("h2", {}, `${step}. ${title}`), element("p", {}, say()), asked, answer);
    this.panel.replaceChildren(element("nav", { class: "tabs", "aria-label": "Story" }, ...tabs, close), element("div", { class: "story-row" }, text, ...(puzzle ? [this.puzzle(run)] : []), next));
  }

  // The reader guesses labels of samples drawn at random.
  puzzle(run) {
    const box = element("div", { class: "puzzle", "aria-label": "Puzzle" });
    const ask = () => {
      if (!run) return;
      const { tokens, labels, features } = run.names;
      const atom = Math.floor(Math.random() * tokens.length);
      const said = element("p", { class: "said-so", role: "status" });
      const buttons = [1, -1].map((label) => {
        const guess = element("button", { type: "button", class: "guess", "aria-label": `I say ${label > 0 ? "plus" : "minus"}` }, label > 0 ? "+" : "−");
        guess.addEventListener("click", () => {
          const right = label === labels[atom];
          this.score.of += 1;
          this.score.right += right ? 1 : 0;
          said.textContent = `${right ? "Right" : "No"}, it is ${labels[atom] > 0 ? "+" : "−"}. You: ${this.score.right} of ${this.score.of}.`;
          said.className = `said-so said-${right ? "right" : "wrong"}`;
          buttons.forEach((one) => { one.disabled = true; });
          const another = element("button", { type: "button", class: "small", id: "another" }, "Another");
          another.addEventListener("click", ask);
          said.append(" ", another);
        });
        return guess;
      });
      box.replaceChildren(element("div", { class: "puzzle-row" }, ...tokens[atom].map(([f, sign]) => chip(features[f], sign)), element("span", {}, "→"), ...buttons), said);
    };
    ask();
    return box;
  }
}
