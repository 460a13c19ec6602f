// A field in which a competitor is found by typing: a combobox as ARIA describes it.
Jaxkick.chooser = (() => {
  const { element } = Jaxkick.format;
  const { names } = Jaxkick.scores.data;
  const MOST = 60;

  const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const keys = names.map(plain);

  // Numbers of the names that hold a text; those that begin with it come first.
  function search(text) {
    const wanted = plain(text.trim());
    const found = [];
    const later = [];
    keys.forEach((key, number) => {
      const place = key.indexOf(wanted);
      if (place === 0) found.push(number);
      else if (place > 0) later.push(number);
    });
    return found.concat(later);
  }

  return (input, { onChoose, keepsChoice }) => {
    const list = element("ul", { id: `${input.id}-list`, role: "listbox", hidden: true });
    list.setAttribute("aria-label", "Competitors");
    input.after(list);
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-controls", list.id);
    input.setAttribute("aria-expanded", "false");
    input.autocomplete = "off";
    let found = [];
    let marked = -1;
    let chosen = null;

    function close() {
      list.hidden = true;
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
    }

    function mark(place) {
      marked = place;
      [...list.children].forEach((option, k) => {
        option.setAttribute("aria-selected", String(k === place));
        if (k !== place) return;
        option.scrollIntoView({ block: "nearest" });
        input.setAttribute("aria-activedescendant", option.id);
      });
    }

    function open(text) {
      found = search(text).slice(0, MOST);
      list.replaceChildren(
        ...found.map((number, place) =>
          element(
            "li",
            { id: `${list.id}-${place}`, role: "option", className: "name" },
            names[number],
          ),
        ),
      );
      list.hidden = found.length === 0;
      input.setAttribute("aria-expanded", String(found.length > 0));
      mark(found.length ? 0 : -1);
    }

    function show(number) {
      chosen = number;
      input.value = number === null ? "" : names[number];
    }

    function choose(number) {
      show(keepsChoice ? number : null);
      close();
      onChoose(number);
    }

    input.addEventListener("focus", () => input.select());
    input.addEventListener("click", () => open(""));
    input.addEventListener("input", () => open(input.value));
    input.addEventListener("blur", () => {
      close();
      show(chosen);
    });
    input.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        if (list.hidden) open("");
        else mark((marked + step + found.length) % found.length);
      } else if (event.key === "Enter" && !list.hidden && marked >= 0) {
        event.preventDefault();
        choose(found[marked]);
      } else if (event.key === "Escape") close();
    });
    // Before the field loses the focus, which would close the list.
    list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const place = [...list.children].indexOf(event.target.closest("li"));
      if (place >= 0) choose(found[place]);
    });
    return { show };
  };
})();
