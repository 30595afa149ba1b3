// Light or dark, as the system says or the visitor chose, and the colours that follow from it.

const DARK = matchMedia("(prefers-color-scheme: dark)");

export class Theme extends EventTarget {
  constructor(state) {
    super();
    this.state = state;
    DARK.addEventListener("change", () => this.apply());
  }

  get dark() {
    const chosen = this.state.get("theme");
    return chosen === "auto" ? DARK.matches : chosen === "dark";
  }

  apply() {
    document.documentElement.dataset.theme = this.dark ? "dark" : "light";
    this.dispatchEvent(new Event("change"));
  }

  tones() {
    const style = getComputedStyle(document.documentElement);
    return Object.fromEntries(["text", "ink", "faint", "paper"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }
}
