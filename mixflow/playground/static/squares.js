// The two square maps at the time cursor: scores by key and query, and the attention inside one sample.

import { Maps, rgb, shade } from "./maps.js";
import { number } from "./views.js";

export class Squares {
  constructor(cards, lines) {
    this.lines = lines;
    this.maps = { matrix: new Maps(cards.matrix.body), attention: new Maps(cards.attention.body) };
  }

  matrix(run, index, dark) {
    const top = largest(run);
    const [paper, cold, warm] = [ground(dark), rgb(this.lines.other), rgb(this.lines.own)];
    this.maps.matrix.show({
      names: run.names.features, digits: 2, rowsAre: "key", columnsAre: "query", chips: false,
      value: (h, i, j) => run.at("A", index, h, i, j),
      tone: (x) => tinted(paper, x < 0 ? cold : warm, Math.abs(x) / top, dark),
    });
  }

  attention(run, index, dark) {
    const view = run.views.sample;
    if (!view) return;
    const { shape, data } = view.arrays.attention;
    const n = shape[2];
    const [paper, full] = [ground(dark), rgb(this.lines.own)];
    // rows are queries, so that each row sums to one; the array has keys first
    this.maps.attention.show({
      names: view.header.tokens, digits: 2, rowsAre: "query", columnsAre: "key", chips: true,
      value: (h, i, j) => data[((index * 2 + h) * n + j) * n + i],
      tone: (x) => tinted(paper, full, x, dark),
    });
    const margin = number(run.at("margin", index, view.header.atom));
    const when = run.still ? "" : " at the cursor";
    document.getElementById("verdict").textContent = `label ${view.header.label > 0 ? "+" : "−"}, margin ${margin}${when}`;
  }
}

function ground(dark) {
  return rgb(dark ? "#20252a" : "#f6f6f6");
}

function tinted(paper, colour, share, dark) {
  const light = dark ? "#f0f0f0" : "#111";
  return [shade(paper, colour, share), share > 0.6 ? "#fff" : light];
}

function largest(run) {
  if (run.largest?.length !== run.length) {
    const top = run.series.A.data.reduce((most, x) => Math.max(most, Math.abs(x)), 1e-9);
    run.largest = { length: run.length, top };
  }
  return run.largest.top;
}
