// Square maps drawn by hand as SVG: attention scores between features, attention inside one sample with its tokens.

const NS = "http://www.w3.org/2000/svg";
const HEADS = ["head +", "head −"];

// A grid for each head; cells are made once and repainted when the cursor moves.
export class Maps {
  constructor(body) {
    this.body = body;
    this.signature = "";
  }

  // names: row and column labels; value(h, row, column) -> number; tone(value) -> [fill, text colour]; chips draws tokens.
  show({ names, value, tone, digits, chips, rowsAre, columnsAre }) {
    const signature = JSON.stringify([names, chips, rowsAre]);
    if (signature !== this.signature) this.build(names, chips, rowsAre, columnsAre);
    this.signature = signature;
    const n = names.length;
    for (let h = 0; h < 2; h += 1) {
      for (let i = 0; i < n; i += 1) {
        for (let j = 0; j < n; j += 1) {
          const { box, label, title } = this.cells[h][i * n + j];
          const x = value(h, i, j);
          const [fill, ink] = tone(x);
          box.setAttribute("fill", fill);
          title.textContent = `${HEADS[h]}, ${rowsAre} ${names[i]}, ${columnsAre} ${names[j]}: ${x.toFixed(4)}`;
          if (label) {
            label.textContent = x.toFixed(digits);
            label.style.fill = ink;
          }
        }
      }
    }
  }

  build(names, chips, rowsAre, columnsAre) {
    this.body.replaceChildren();
    const n = names.length;
    const size = 40;
    const side = 44;
    const head = 40;
    this.cells = HEADS.map((title) => {
      const svg = svgElement("svg", { viewBox: `0 0 ${side + n * size + 2} ${head + n * size + 2}`, class: "map", role: "img", "aria-label": `${title}: rows are ${rowsAre} tokens, columns are ${columnsAre} tokens` });
      svg.append(svgText(2, 11, title, "map-title", "start"), svgText(side + (n * size) / 2, 11, `${columnsAre} →`, "map-axis"), svgText(2, head - 5, `${rowsAre} ↓`, "map-axis", "start"));
      names.forEach((name, i) => {
        svg.append(...token(name, side + i * size + size / 2, head - 13, chips), ...token(name, side / 2, head + i * size + size / 2, chips));
      });
      const cells = [];
      for (let i = 0; i < n; i += 1) {
        for (let j = 0; j < n; j += 1) {
          const box = svgElement("rect", { x: side + j * size + 1, y: head + i * size + 1, width: size - 2, height: size - 2, rx: 3 });
          const hint = svgElement("title", {});
          box.append(hint);
          svg.append(box);
          const label = n <= 7 ? svgText(side + j * size + size / 2, head + i * size + size / 2 + 4, "", "map-value") : null;
          if (label) svg.append(label);
          cells.push({ box, label, title: hint });
        }
      }
      this.body.append(svg);
      return cells;
    });
  }

  clear() {
    this.signature = "";
    this.body.replaceChildren();
  }
}

// A token: identifiers are rounded boxes, signals circles, filled for + and hollow for −.
function token(name, x, y, chips) {
  const kind = name.replace(/[+−]/, "")[0];
  const negative = name.startsWith("−");
  const mark = [];
  if (chips) {
    const look = { class: `token token-${kind}${negative ? " token-negative" : ""}` };
    mark.push(svgElement("rect", { x: x - 17, y: y - 10, width: 34, height: 20, rx: kind === "c" ? 4 : 10, ...look }));
  }
  const look = `token-name${negative ? " token-name-negative" : ""}${name.length > 4 ? " token-name-long" : ""}`;
  mark.push(svgText(x, y + 4, name, chips ? look : `feature feature-${kind}`));
  return mark;
}

function svgElement(name, attributes) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function svgText(x, y, text, kind, anchor = "middle") {
  const made = svgElement("text", { x, y, class: kind, "text-anchor": anchor });
  made.textContent = text;
  return made;
}

// From paper to a colour as the share goes from 0 to 1.
export function shade(from, to, share) {
  const mix = [0, 1, 2].map((i) => Math.round(from[i] + (to[i] - from[i]) * Math.max(0, Math.min(1, share))));
  return `rgb(${mix.join(",")})`;
}

export function rgb(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

// All maps of a body as one SVG file, with the colours they have now.
export function asSvg(body) {
  const svgs = [...body.querySelectorAll("svg")];
  const width = svgs.reduce((sum, svg) => sum + svg.viewBox.baseVal.width + 16, 0);
  const height = Math.max(...svgs.map((svg) => svg.viewBox.baseVal.height));
  const sheet = svgElement("svg", { xmlns: NS, viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "system-ui, sans-serif" });
  let x = 0;
  for (const svg of svgs) {
    const group = svgElement("g", { transform: `translate(${x} 0)` });
    for (const child of svg.children) {
      const copy = child.cloneNode(true);
      const seen = getComputedStyle(child);
      for (const name of ["fill", "stroke", "stroke-width", "font-size", "font-weight", "text-anchor"]) copy.setAttribute(name, seen.getPropertyValue(name));
      group.append(copy);
    }
    sheet.append(group);
    x += svg.viewBox.baseVal.width + 16;
  }
  return { text: new XMLSerializer().serializeToString(sheet), width, height };
}
