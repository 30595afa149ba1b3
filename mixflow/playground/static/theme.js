// Light or dark, as the system says or the visitor chose.

const DARK = matchMedia("(prefers-color-scheme: dark)");

export function followTheme(state) {
  const apply = () => {
    const chosen = state.get("theme");
    document.documentElement.dataset.theme = (chosen === "auto" ? DARK.matches : chosen === "dark") ? "dark" : "light";
  };
  DARK.addEventListener("change", apply);
  state.addEventListener("change", ({ detail }) => { if (detail.has("theme")) apply(); });
  apply();
}
