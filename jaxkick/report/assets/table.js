// Tables that sort by each column, and show many rows in portions.
Jaxkick.table = (() => {
  const { element } = Jaxkick.format;
  const PORTION = 100;

  function compare(one, other) {
    if (one === null || other === null) return (one === null) - (other === null);
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one).localeCompare(String(other), undefined, { numeric: true });
  }

  // `columns`: label, `value` to sort by and `cell` to show, both of a row; `number`, `minor`,
  // and `falls` where the first click puts the largest first.
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
