// Pictures come alive: each .live gets its page in a frame in place of the still picture, once it is near the screen.
const near = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    const frame = document.createElement("iframe");
    const chosen = document.body.dataset.theme;
    frame.src = target.dataset.src + (chosen === "light" || chosen === "dark" ? `&theme=${chosen}` : "");
    frame.title = target.dataset.title;
    frame.height = target.dataset.height;
    target.querySelector("img").replaceWith(frame);
  }
}, { rootMargin: "300px" });
for (const figure of document.querySelectorAll(".live")) near.observe(figure);
