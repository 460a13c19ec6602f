// Start the page: text and tables first, then the plotting library.
(() => {
  const { element, percent, setScale, time } = Jaxkick.format;
  const { data, span } = Jaxkick.numbers;
  const { chart } = Jaxkick;
  const at = (id) => document.getElementById(id);
  const TOP = 5;
  const RESULTS = { p_win: "first wins", p_tie: "tie", p_loss: "second wins" };

  function introduce() {
    const count = (number, word) =>
      `${number.toLocaleString("en-GB")} ${word}${number === 1 ? "" : "s"}`;
    const word = data.ranking ? "event" : "match";
    const parts = [count(data.matches, word).replace("matchs", "matches")];
    parts.push(count(data.names.length, "competitor"));
    if (span > 0) parts.push(`${time(data.time.begin)} to ${time(data.time.last)}`);
    at("summary").textContent = parts.join(" · ");
    at("description").textContent = data.description;
    if (data.ranking) at("forecast-heading").textContent = "Head to head";
    at("share").textContent = `${Math.round(100 * data.interval)} %`;
    if (!data.joint) at("alone").textContent = ", which is too narrow for a single skill";
  }

  function startScale() {
    at("scale").hidden = at("elo-note").hidden = !data.scale;
    for (const choice of document.querySelectorAll("input[name=scale]")) {
      choice.addEventListener("change", () => setScale(choice.value));
    }
  }

  function startChart(ranked) {
    const top = () => chart.show(ranked.slice(0, TOP));
    Jaxkick.chooser(at("add"), { onChoose: (who) => chart.has(who) || chart.toggle(who) });
    at("top").textContent = `Top ${Math.min(TOP, ranked.length)}`;
    at("top").addEventListener("click", top);
    at("clear").addEventListener("click", () => chart.show([]));
    at("earlier").addEventListener("click", () => chart.move(-0.4, 1));
    at("later").addEventListener("click", () => chart.move(0.4, 1));
    at("closer").addEventListener("click", () => chart.move(0, 0.5));
    at("wider").addEventListener("click", () => chart.move(0, 2));
    at("whole").addEventListener("click", chart.showAll);
    at("bands").addEventListener("change", () => chart.showBands(at("bands").checked));
    at("scores").hidden = !(span > 0);
    top();
  }

  function showForecasts({ columns, values }) {
    const rows = (values[0] || []).map((_, row) => values.map((column) => column[row]));
    const isChance = values.map(
      (column, place) =>
        /^p_|outcome_|probability/.test(columns[place]) &&
        column.every((value) => typeof value === "number" && value >= 0 && value <= 1),
    );
    const words = columns.includes("p_loss") ? RESULTS : {};
    const show = (value, place) => {
      if (value === null) return "";
      if (typeof value !== "number") return String(value);
      return isChance[place] ? percent(value) : String(Number(value.toPrecision(4)));
    };
    const table = Jaxkick.table(
      at("forecast-table"),
      columns.map((label, place) => ({
        label: words[label] ?? label.replace(/_/g, " "),
        value: (row) => row[place],
        cell: (row) => show(row[place], place),
        number: values[place].some((value) => typeof value === "number"),
        kind: "name text",
      })),
      { caption: "Forecasts", empty: "There are no forecasts." },
    );
    table.fill(rows);
    at("forecasts").hidden = false;
  }

  // The library is stored compressed; the content security policy contains its hash.
  async function loadLibrary() {
    const bytes = Uint8Array.from(atob(at("library").textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = element("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    at("waiting").remove();
    chart.start();
  }

  introduce();
  startScale();
  const ranked = Jaxkick.leaderboard.start();
  startChart(ranked);
  Jaxkick.forecaster.start(ranked[0] ?? null, ranked[1] ?? null);
  if (data.forecasts) showForecasts(data.forecasts);
  Jaxkick.theme.start();

  function finish() {
    // Wait two frames, so that the browser paints the page before it reads the library.
    requestAnimationFrame(() =>
      requestAnimationFrame(() =>
        loadLibrary().catch(() => {
          at("waiting").textContent = "This browser is too old to draw the curves.";
        }),
      ),
    );
  }

  if (document.readyState === "loading") addEventListener("DOMContentLoaded", finish);
  else finish();
})();
