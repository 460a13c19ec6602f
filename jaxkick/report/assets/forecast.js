// Forecast of a match between two competitors: the form and its answer.
Jaxkick.forecaster = (() => {
  const { element, interval, number, onScale, percent, rating, time, withClock } = Jaxkick.format;
  const { competitor, data, forecast } = Jaxkick.numbers;
  const at = (id) => document.getElementById(id);
  const GRID = 6;
  let sides = [null, null];
  let fields = [];

  const name = (side) => element("bdi", { className: "name" }, data.names[side]);

  function readTime() {
    const value = at("when").value;
    if (value === "") return NaN;
    return data.time.dates ? Date.parse(`${value}Z`) : Number(value);
  }

  const asField = (value) =>
    data.time.dates ? new Date(value).toISOString().slice(0, withClock ? 16 : 10) : String(value);

  function readHome() {
    const chosen = document.querySelector("input[name=venue]:checked");
    return data.home === null ? 0 : Number(chosen.value);
  }

  // A bar of probabilities, with labels and numbers below it.
  function chances(parts) {
    const bar = element("div", { className: "chances" });
    bar.setAttribute("aria-hidden", "true");
    const list = element("dl", { className: "chance-list" });
    for (const { label, chance, kind } of parts) {
      const part = element("i", { className: kind });
      part.style.flexGrow = String(Math.max(chance, 1e-4));
      bar.append(part);
      list.append(
        element(
          "div",
          { className: kind },
          element("dt", {}, label),
          element("dd", {}, percent(chance)),
        ),
      );
    }
    return [bar, list];
  }

  function resultParts([loss, tie, win]) {
    const wins = (side) => element("span", {}, name(side), " wins");
    const withTies = data.outcome.counts || data.outcome.ties;
    return [
      { label: wins(sides[0]), chance: win, kind: "win" },
      ...(withTies ? [{ label: "Tie", chance: tie, kind: "tie" }] : []),
      { label: wins(sides[1]), chance: loss, kind: "loss" },
    ];
  }

  function levelParts({ levels, chances: each }) {
    return levels.map((level, place) => ({
      label: `Outcome ${level}`,
      chance: each[place],
      kind: `level level-${place % 5}`,
    }));
  }

  // Probabilities of the likely pairs of counts, darker where they are higher.
  function grid(chancesOf) {
    const size = Math.min(GRID, chancesOf.length, chancesOf[0].length);
    const numbers = Array.from({ length: size }, (_, k) => k);
    const highest = Math.max(...numbers.flatMap((i) => numbers.map((j) => chancesOf[i][j])));
    const cell = (chance) => {
      const made = element("td", {}, (100 * chance).toFixed(chance < 0.0995 ? 1 : 0));
      made.style.setProperty("--share", `${Math.round((78 * chance) / highest)}%`);
      if (chance > 0.85 * highest) made.className = "high";
      return made;
    };
    const head = element("tr", {}, element("td"), ...numbers.map((j) => heading(j, "col")));
    const rows = numbers.map((i) =>
      element("tr", {}, heading(i, "row"), ...numbers.map((j) => cell(chancesOf[i][j]))),
    );
    const caption = element("caption", {}, name(sides[0]), " down, ", name(sides[1]), " across, in %");
    return element("table", { className: "grid" }, caption, head, ...rows);
  }

  const heading = (text, scope) => element("th", { scope }, String(text));

  function fact(label, ...value) {
    return element("p", { className: "fact" }, `${label} `, element("strong", {}, ...value));
  }

  function facts(found) {
    const share = Math.round(100 * data.interval);
    if (found.goals) {
      return [fact("Expected", found.goals.map((goals) => number(goals, 2)).join(" : "))];
    }
    if (found.expected === undefined) return [];
    const { signed, whole } = data.outcome;
    const digits = whole ? 0 : 1;
    const ends = [found.lower, found.upper].map((end) => number(end, digits)).join(" to ");
    const what = signed ? "Expected difference" : whole ? "Expected count" : "Expected outcome";
    return [fact(what, number(found.expected, 2), `  (${share} %: ${ends})`)];
  }

  function standings(when) {
    const lines = sides.map((side) => {
      const { mean, variance } = competitor(side, when);
      const played = data.board.first[side] <= when && when <= data.board.last[side];
      const range = `${time(data.board.first[side])} to ${time(data.board.last[side])}`;
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, name(side)),
        element("td", { className: "number strong" }, rating(mean)),
        element("td", { className: "number" }, interval(mean, variance)),
        element("td", { className: "minor" }, played ? "" : `played ${range}`),
      );
    });
    const caption = element("caption", {}, "Ratings at this time");
    return element("table", { className: "standings" }, caption, ...lines);
  }

  function problem(when) {
    if (sides[0] === null || sides[1] === null) return "Choose two competitors.";
    if (sides[0] === sides[1]) return "Choose two different competitors.";
    if (!(when >= data.time.begin && when <= data.time.end)) {
      const what = data.time.dates ? "date" : "time";
      return `Choose a ${what} from ${time(data.time.begin)} to ${time(data.time.end)}.`;
    }
    return null;
  }

  function answer() {
    const when = readTime();
    const reason = problem(when);
    if (reason) return [element("p", { className: "hint" }, reason)];
    const values = fields.map((field) => Number(field.value) || 0);
    const [first, second] = sides;
    const found = forecast({ first, second, time: when, home: readHome(), values });
    const parts = [];
    if (found.result) parts.push(...chances(resultParts(found.result)));
    if (found.levels) parts.push(...chances(levelParts(found)));
    if (found.outside) {
      const text = "No forecast: these values are beyond those of the data.";
      parts.push(element("p", { className: "hint" }, text));
    }
    if (!data.outcome.table) {
      const spread = number(Math.sqrt(found.variance), 3);
      parts.push(fact("Difference of scores", number(found.mean, 3), ` ± ${spread}`));
    }
    parts.push(...facts(found));
    if (found.grid) parts.push(grid(found.grid));
    return [...parts, standings(when)];
  }

  const update = () => at("answer").replaceChildren(...answer());

  function makeCovariates() {
    fields = data.covariates.map(({ value }, place) =>
      element("input", { type: "number", step: "any", value: String(value), id: `covariate-${place}` }),
    );
    data.covariates.forEach(({ name: label }, place) => {
      const text = element("label", { htmlFor: fields[place].id, className: "name" }, label);
      at("covariates").append(element("div", { className: "field" }, text, fields[place]));
      fields[place].addEventListener("input", update);
    });
    if (data.left_out) {
      const count = data.left_out.toLocaleString("en-GB");
      const text = `The model has ${count} more features, which count as zero here.`;
      at("covariates").append(element("p", { className: "hint" }, text));
    }
  }

  function makeTime() {
    const field = at("when");
    field.type = data.time.dates ? (withClock ? "datetime-local" : "date") : "number";
    if (!data.time.dates) field.step = "any";
    // A date means its midnight, which may lie before the first match of that day.
    field.min = asField(data.time.dates && !withClock ? data.time.begin + 86399999 : data.time.begin);
    field.max = asField(data.time.end);
    field.value = asField(data.time.last);
    field.addEventListener("input", update);
    const unit = data.time.unit ? ` in ${data.time.unit}s` : "";
    at("when-label").textContent = data.time.dates ? "Date" : `Time${unit}`;
    at("when-field").hidden = data.time.begin === data.time.end;
  }

  function start(first, second) {
    sides = [first, second];
    const choosers = ["first", "second"].map((id, place) =>
      Jaxkick.chooser(at(id), {
        keepsChoice: true,
        onChoose: (side) => {
          sides[place] = side;
          update();
        },
      }),
    );
    const show = () => choosers.forEach((chooser, place) => chooser.show(sides[place]));
    at("swap").addEventListener("click", () => {
      sides.reverse();
      show();
      update();
    });
    at("venue").hidden = data.home === null;
    for (const choice of document.querySelectorAll("input[name=venue]")) {
      choice.addEventListener("change", update);
    }
    makeTime();
    makeCovariates();
    show();
    onScale(update);
    update();
  }

  return { start };
})();
