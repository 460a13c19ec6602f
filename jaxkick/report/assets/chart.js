// Skill curves with their intervals.
Jaxkick.chart = (() => {
  const { bounds, element, interval, level, onScale, rating, withClock } = Jaxkick.format;
  const { competitor, data, extentOf, span } = Jaxkick.numbers;
  const { colour, onChange } = Jaxkick.theme;
  const COLOURS = 6;
  const DASHES = ["solid", "7px 3px", "2px 2px", "9px 3px 2px 3px"];
  const POINTS = 480;
  const MOST = 12;
  const LABEL_GAP = 15;
  const plot = document.getElementById("plot");
  const chips = document.getElementById("chips");
  const listeners = [];
  const whole = [data.time.begin, data.time.end];
  let chosen = [];
  let view = whole;
  let withBands = true;
  let ready = false;

  const styleOf = ({ slot }) => ({
    colour: colour(`line-${slot % COLOURS}`),
    dash: DASHES[slot % DASHES.length],
  });

  // The curve of a competitor who is no longer active ends with the last match.
  function ownSpan(number) {
    const last = data.board.last[number];
    return [data.board.first[number], last >= data.time.recent ? data.time.end : last];
  }

  const asX = (time) => (data.time.dates ? new Date(time).toISOString() : time);

  function pointsOf(number) {
    const [first, last] = ownSpan(number);
    const [begin, end] = [Math.max(first, view[0]), Math.min(last, view[1])];
    if (begin > end) return [];
    const step = (view[1] - view[0]) / POINTS;
    const inner = [];
    for (let k = 0; k <= POINTS; k += 1) {
      const time = view[0] + k * step;
      if (time > begin && time < end) inner.push(time);
    }
    return [begin, ...inner, end].map((time) => ({ time, ...competitor(number, time) }));
  }

  // Plotly interprets some markup in texts, so names are escaped.
  const escaped = (text) =>
    text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const shortened = (text) => (text.length > 20 ? `${text.slice(0, 19)}…` : text);

  function tracesOf(item) {
    const points = pointsOf(item.number);
    const style = styleOf(item);
    const line = {
      x: points.map(({ time }) => asX(time)),
      y: points.map(({ mean }) => level(mean)),
      text: points.map(
        ({ mean, variance }) => `${rating(mean)}  (${interval(mean, variance)})`,
      ),
      name: escaped(shortened(data.names[item.number])),
      hovertemplate: "%{fullData.name}  <b>%{text}</b><extra></extra>",
      mode: "lines",
      line: { color: style.colour, dash: style.dash, width: 2.2 },
    };
    if (!withBands) return { line };
    const sides = points.map(({ mean, variance }) => bounds(mean, variance).map(level));
    const band = {
      x: [...line.x, ...[...line.x].reverse()],
      y: [...sides.map(([low]) => low), ...sides.map(([, high]) => high).reverse()],
      fill: "toself",
      fillcolor: style.colour,
      opacity: Math.min(0.14, 0.6 / chosen.length),
      mode: "none",
      hoverinfo: "skip",
    };
    return { band, line };
  }

  // Labels at the ends of lines, moved apart where they would overlap.
  function labels(height) {
    const ends = chosen
      .map((item) => ({ item, last: pointsOf(item.number).at(-1) }))
      .filter(({ last }) => last)
      .map(({ item, last }) => ({ item, time: last.time, value: level(last.mean), shift: 0 }))
      .sort((one, other) => one.value - other.value);
    const all = chosen.flatMap(({ number }) =>
      pointsOf(number).flatMap(({ mean, variance }) =>
        (withBands ? bounds(mean, variance) : [mean]).map(level),
      ),
    );
    const [low, high] = extentOf(all);
    const perPixel = (1.1 * (high - low)) / height || 1;
    let free = -Infinity;
    for (const end of ends) {
      if (end.time < view[1] - 0.02 * (view[1] - view[0])) continue;
      const wanted = end.value / perPixel;
      end.shift = Math.max(free - wanted, 0);
      free = wanted + end.shift + LABEL_GAP;
    }
    return ends.map(({ item, time, value, shift }) => ({
      x: asX(time),
      y: value,
      yshift: shift,
      xshift: 5,
      text: escaped(shortened(data.names[item.number])),
      font: { color: styleOf(item).colour, size: 12 },
      xanchor: "left",
      showarrow: false,
    }));
  }

  function layout() {
    const wide = plot.clientWidth > 680;
    const grid = { gridcolor: colour("grid"), linecolor: colour("rule"), zeroline: false };
    return {
      autosize: true,
      height: wide ? 430 : 330,
      margin: { l: 48, r: wide ? 150 : 10, t: 12, b: 36 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: colour("soft") },
      showlegend: false,
      hovermode: "x unified",
      hoverlabel: {
        bgcolor: colour("card"),
        bordercolor: colour("rule"),
        font: { color: colour("ink"), size: 12 },
      },
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      xaxis: {
        ...grid,
        type: data.time.dates ? "date" : "linear",
        range: view.map(asX),
        showgrid: false,
        ticks: "outside",
        tickcolor: colour("rule"),
        hoverformat: data.time.dates ? `%-d %b %Y${withClock ? ", %H:%M" : ""}` : "",
      },
      yaxis: { ...grid, fixedrange: true, automargin: true },
      annotations: wide ? labels(380) : [],
    };
  }

  function draw() {
    if (!ready) return;
    const drawn = chosen.map(tracesOf);
    // Bands below all lines.
    const traces = [...drawn.map(({ band }) => band), ...drawn.map(({ line }) => line)];
    const settings = { displayModeBar: false, responsive: true, showTips: false };
    Plotly.react(plot, traces.filter(Boolean), layout(), settings);
    const names = chosen.map(({ number }) => data.names[number]).join(", ");
    plot.setAttribute("aria-label", `Scores over time of ${names || "no competitors"}`);
  }

  function chip(item) {
    const { colour: stroke, dash } = styleOf(item);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 28 8");
    svg.setAttribute("aria-hidden", "true");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    line.setAttribute("d", "M0 4H28");
    line.setAttribute("stroke", stroke);
    if (dash !== "solid") line.setAttribute("stroke-dasharray", dash.replace(/px/g, ""));
    svg.append(line);
    const name = data.names[item.number];
    const button = element("button", { type: "button" }, "×");
    button.setAttribute("aria-label", `Remove ${name}`);
    button.addEventListener("click", () => toggle(item.number));
    return element("li", {}, svg, element("span", { className: "name" }, name), button);
  }

  function update() {
    chips.replaceChildren(...chosen.map(chip));
    draw();
    for (const listener of listeners) listener();
  }

  const has = (number) => chosen.some((item) => item.number === number);

  function toggle(number) {
    if (has(number)) chosen = chosen.filter((item) => item.number !== number);
    else {
      if (chosen.length === MOST) chosen = chosen.slice(1);
      const used = new Set(chosen.map(({ slot }) => slot));
      let slot = 0;
      while (used.has(slot)) slot += 1;
      chosen = [...chosen, { number, slot }];
    }
    update();
  }

  function show(numbers) {
    chosen = numbers.slice(0, MOST).map((number, slot) => ({ number, slot }));
    update();
  }

  function setView(begin, end) {
    const length = Math.min(Math.max(end - begin, span / 2000), span);
    const start = Math.min(Math.max(begin, whole[0]), whole[1] - length);
    view = [start, start + length];
    draw();
  }

  function move(step, factor) {
    const length = view[1] - view[0];
    const middle = 0.5 * (view[0] + view[1]) + step * length;
    setView(middle - 0.5 * factor * length, middle + 0.5 * factor * length);
  }

  const asTime = (x) =>
    typeof x === "string" ? Date.parse(`${x.replace(" ", "T").replace(/Z?$/, "Z")}`) : x;

  // Called once the plotting library is loaded.
  function start() {
    ready = true;
    draw();
    plot.on("plotly_relayout", (change) => {
      if ("xaxis.range[0]" in change) {
        setView(asTime(change["xaxis.range[0]"]), asTime(change["xaxis.range[1]"]));
      } else if (change["xaxis.autorange"]) setView(...whole);
    });
    addEventListener("resize", draw);
  }

  onChange(update);
  onScale(draw);
  return {
    has,
    move,
    onChange: (listener) => listeners.push(listener),
    show,
    showAll: () => setView(...whole),
    showBands: (wanted) => {
      withBands = wanted;
      draw();
    },
    start,
    toggle,
    view: () => view,
  };
})();
