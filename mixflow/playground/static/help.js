// The help page follows the system's colours.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", follow);
follow();
