// What the page says in words: the status line and the yellow alert.

import { $ } from "./draw.js";

export function status(text, kind) {
  $("status").textContent = text;
  $("status").dataset.state = kind;
}

export function say(text) {
  $("alert").textContent = text;
  $("alert").hidden = !text;
}
