// Light or dark: as the system says, until the reader chooses.
Jaxkick.theme = (() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];

  // Storage is not open to every page that is a file.
  function remembered(write) {
    try {
      if (write) localStorage.setItem("jaxkick-theme", write);
      return localStorage.getItem("jaxkick-theme");
    } catch {
      return null;
    }
  }

  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : system.matches;

  function announce() {
    document.getElementById("theme").setAttribute("aria-pressed", String(isDark()));
    for (const listener of listeners) listener();
  }

  function start() {
    const kept = remembered();
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
    document.getElementById("theme").addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remembered(root.dataset.theme);
      announce();
    });
    system.addEventListener("change", announce);
    announce();
  }

  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  return { colour, onChange: (listener) => listeners.push(listener), start };
})();
