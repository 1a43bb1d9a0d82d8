// Sets the theme before the first paint. Modules run later: a classic script, without exports.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("pulsed.theme");
  } catch {
    // no storage: the system decides
  }
  const isDark = theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
})();
