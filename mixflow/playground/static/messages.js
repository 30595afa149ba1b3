// What the page says in words: the status line and the yellow alert.

const $ = (id) => document.getElementById(id);

export function status(text, kind) {
  $("status").textContent = text;
  $("status").dataset.state = kind;
}

export function state() {
  return $("status").dataset.state;
}

export function say(text) {
  $("alert").textContent = text;
  $("alert").hidden = !text;
}
