// Elements, and numbers and times as text.
Jaxkick.format = (() => {
  const { data, span } = Jaxkick.numbers;
  const DAY = 86400000;
  const withClock = data.time.dates && span < 30 * DAY;
  const listeners = [];
  let scale = data.scale;

  // An element with properties; children are elements or text, never markup.
  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in made && name !== "list" && !name.startsWith("aria")) made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  const calendar = new Intl.DateTimeFormat("en-GB", {
    day: "numeric",
    month: "short",
    year: "numeric",
    timeZone: "UTC",
    ...(withClock ? { hour: "2-digit", minute: "2-digit" } : {}),
  });

  function time(value) {
    return data.time.dates ? calendar.format(new Date(value)) : String(Number(value.toPrecision(6)));
  }

  const typical = [...data.board.deviation].sort((a, b) => a - b)[data.names.length >> 1];
  const places = Math.min(Math.max(1 - Math.floor(Math.log10(typical || 1)), 0), 4);

  const minus = (text) => text.replace("-", "\u2212");
  const number = (value, digits) => minus(value.toFixed(digits));
  const level = (mean) => (scale ? scale.centre + scale.factor * mean : mean);
  const rating = (mean) => number(level(mean), scale ? 0 : places);

  function bounds(mean, variance) {
    const reach = data.reach * Math.sqrt(variance);
    return [mean - reach, mean + reach];
  }

  const interval = (mean, variance) => bounds(mean, variance).map(rating).join(" to ");

  function percent(p) {
    if (p > 0 && p < 0.001) return "< 0.1 %";
    if (p < 1 && p > 0.999) return "> 99.9 %";
    return `${(100 * p).toFixed(1)} %`;
  }

  function setScale(name) {
    scale = name === "elo" ? data.scale : null;
    for (const listener of listeners) listener();
  }

  return {
    bounds,
    element,
    interval,
    level,
    number,
    onScale: (listener) => listeners.push(listener),
    percent,
    rating,
    setScale,
    time,
    withClock,
  };
})();

// Light or dark: the system setting, until the reader chooses.
Jaxkick.theme = (() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];

  // Browsers may deny storage to local files.
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

// A field that finds competitors while the reader types: an ARIA combobox.
Jaxkick.chooser = (() => {
  const { element } = Jaxkick.format;
  const { names } = Jaxkick.numbers.data;
  const MOST = 60;

  const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const keys = names.map(plain);

  // Numbers of the names that contain a text; names that begin with it come first.
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
    // Not `click`: the field would lose the focus first and close the list.
    list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const place = [...list.children].indexOf(event.target.closest("li"));
      if (place >= 0) choose(found[place]);
    });
    return { show };
  };
})();

// Tables that sort by any column and show long lists in portions.
Jaxkick.table = (() => {
  const { element } = Jaxkick.format;
  const PORTION = 100;

  function compare(one, other) {
    if (one === null || other === null) return (one === null) - (other === null);
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one).localeCompare(String(other), undefined, { numeric: true });
  }

  // `columns`: `label`; `value` to sort by and `cell` to show, both functions of a row; `number`
  // aligns right, `minor` is hidden on phones, `falls` sorts in descending order first.
  return (place, columns, { caption, empty }) => {
    const body = element("tbody");
    const more = element("button", { type: "button", className: "more" });
    const status = element("p", { className: "unseen", role: "status" });
    let rows = [];
    let shown = PORTION;
    let order = { column: 0, falls: false };

    const headings = columns.map((column, number) => {
      const button = element("button", { type: "button", title: column.hint || "" }, column.label);
      button.addEventListener("click", () => sort(number));
      return element("th", { scope: "col", className: classOf(column) }, button);
    });
    const table = element(
      "table",
      {},
      element("caption", { className: "unseen" }, caption),
      element("thead", {}, element("tr", {}, ...headings)),
      body,
    );
    more.addEventListener("click", () => {
      shown += 10 * PORTION;
      draw();
    });
    place.replaceChildren(element("div", { className: "table" }, table), more, status);

    function classOf({ number, minor, kind }) {
      return [number && "number", minor && "minor", kind].filter(Boolean).join(" ");
    }

    function sort(number) {
      const same = order.column === number;
      order = { column: number, falls: same ? !order.falls : Boolean(columns[number].falls) };
      draw();
      const way = order.falls ? "descending" : "ascending";
      status.textContent = `Sorted by ${columns[number].label}, ${way}.`;
    }

    function drawRow(row) {
      const cells = columns.map((column) =>
        element(column.heads ? "th" : "td", { className: classOf(column) }, column.cell(row)),
      );
      for (const cell of cells) if (cell.tagName === "TH") cell.scope = "row";
      return element("tr", {}, ...cells);
    }

    function draw() {
      const { value } = columns[order.column];
      const sign = order.falls ? -1 : 1;
      const sorted = rows
        .map((row) => ({ row, key: value(row) }))
        .sort((one, other) => {
          if (one.key === null || other.key === null) return compare(one.key, other.key);
          return sign * compare(one.key, other.key);
        });
      body.replaceChildren(...sorted.slice(0, shown).map(({ row }) => drawRow(row)));
      if (!rows.length) {
        const cell = element("td", { colSpan: columns.length, className: "empty" }, empty);
        body.append(element("tr", {}, cell));
      }
      more.hidden = rows.length <= shown;
      more.textContent = `Show more of ${rows.length.toLocaleString("en-GB")} rows`;
      headings.forEach((heading, number) => {
        const sorts = number === order.column;
        if (sorts) heading.setAttribute("aria-sort", order.falls ? "descending" : "ascending");
        else heading.removeAttribute("aria-sort");
      });
    }

    function fill(wanted) {
      rows = wanted;
      shown = PORTION;
      draw();
    }

    return { draw, fill };
  };
})();
