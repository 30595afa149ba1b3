// Square maps: scores between features, attention inside one sample; rows are keys and columns are queries in both.

import { put, signed, svg, text, tokenName, write } from "./draw.js";

const SIZE = 40;
const SIDE = 46;
const TOP = 44;
const HEADS = ["head +", "head −"];

export class Maps {
  constructor(cards) {
    this.made = { matrix: { body: cards.matrix.body }, attention: { body: cards.attention.body } };
  }

  matrix(run, index) {
    const { features } = run.names;
    if (run.largest?.length !== run.length) run.largest = { length: run.length, top: run.series.A.data.reduce((most, x) => Math.max(most, Math.abs(x)), 0.01) };
    const { top } = run.largest;
    this.show("matrix", features.map((f) => [f, 0]), features, (h, k, q) => run.at("A", index, h, k, q), (x) => [x < 0 ? "minus" : "plus", Math.abs(x) / top]);
  }

  attention(run, index, atom) {
    const tokens = run.names.tokens[atom];
    const P = run.attention(index, atom);
    const L = tokens.length;
    this.show("attention", tokens.map(([f, sign]) => [run.names.features[f], sign]), tokens, (h, k, q) => P[(h * L + k) * L + q], (x) => ["plus", x]);
  }

  show(id, tokens, key, value, tone) {
    const map = this.made[id];
    const signature = JSON.stringify(key);
    if (signature !== map.signature) Object.assign(map, { signature, cells: this.build(map.body, tokens) });
    const n = tokens.length;
    for (const { box, label, title, h, k, q } of map.cells) {
      const x = value(h, k, q);
      const [kind, share] = tone(x);
      put(box, { class: `cell tone-${kind}`, "fill-opacity": Math.min(1, share).toFixed(3) });
      write(title, `${HEADS[h]}: ${tokenName(...tokens[q])} looks at ${tokenName(...tokens[k])}: ${x.toFixed(4)}`);
      if (n <= 7) {
        write(label, signed(x));
        label.classList.toggle("strong", share > 0.55);
      }
    }
  }

  build(body, tokens) {
    const n = tokens.length;
    const cells = [];
    body.replaceChildren(...HEADS.map((name, h) => {
      const sheet = svg("svg", { viewBox: `0 0 ${SIDE + n * SIZE + 2} ${TOP + n * SIZE + 2}`, class: "map", role: "img", "aria-label": `${name}: rows are keys, columns are queries` });
      sheet.append(text(2, 12, name, `head-name tone-${h ? "minus" : "plus"}`, "start"), text(SIDE + n * SIZE, 12, "query (who asks) →", "hint", "end"), text(2, TOP - 6, "key ↓", "hint", "start"));
      tokens.forEach(([feature, sign], i) => {
        const look = `tile-name-${feature[0]}`;
        sheet.append(text(SIDE + (i + 0.5) * SIZE, TOP - 12, tokenName(feature, sign), look), text(SIDE / 2, TOP + (i + 0.5) * SIZE + 4, tokenName(feature, sign), look));
      });
      for (let k = 0; k < n; k += 1) {
        for (let q = 0; q < n; q += 1) {
          const title = svg("title");
          const [x, y] = [SIDE + q * SIZE + 1, TOP + k * SIZE + 1];
          const box = svg("rect", { x, y, width: SIZE - 2, height: SIZE - 2, rx: 3 }, title);
          const label = text(x + SIZE / 2 - 1, y + SIZE / 2 + 3, "", "map-value");
          sheet.append(svg("rect", { class: "cell-ground", x, y, width: SIZE - 2, height: SIZE - 2, rx: 3 }), box, label);
          cells.push({ box, label, title, h, k, q });
        }
      }
      return sheet;
    }));
    return cells;
  }
}
