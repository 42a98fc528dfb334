// theme.js: light or dark, as the system has it or as it was chosen here.
// No module, and at the head of each page: so that nothing is painted twice.

(() => {
  const KEY = "weft-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem(KEY) ?? "auto";
    } catch {
      return "auto"; // storage is turned off
    }
  };
  const apply = () => {
    const theme = chosen();
    document.documentElement.dataset.bsTheme =
      theme === "auto" ? dark.matches ? "dark" : "light" : theme;
    dispatchEvent(new Event("weft-theme"));
  };

  globalThis.weftTheme = {
    chosen,
    choose(theme) {
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        return;
      }
      apply();
    },
  };
  dark.addEventListener("change", apply);
  addEventListener("storage", apply);
  apply();
})();
