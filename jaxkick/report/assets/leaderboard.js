// The leaderboard: ratings, intervals, ranks and peaks.
Jaxkick.leaderboard = (() => {
  const { bounds, element, interval, onScale, percent, rating, time } = Jaxkick.format;
  const { data, extentOf, peak, span } = Jaxkick.numbers;
  const { board } = data;
  const chart = Jaxkick.chart;

  function rowsOf(ranks) {
    return ranks.member.map((who, place) => ({
      who,
      rank: ranks.rank[place],
      rankLower: ranks.rank_lower[place],
      rankUpper: ranks.rank_upper[place],
      best: ranks.best[place],
      mean: board.mean[who],
      variance: board.deviation[who] ** 2,
      peak: peak(who),
    }));
  }

  let extent = [0, 1];

  // The interval as a line with a dot; all rows share one scale.
  function bar({ mean, variance }) {
    const [low, high] = bounds(mean, variance);
    const place = (value) => `${(100 * (value - extent[0])) / (extent[1] - extent[0])}%`;
    const range = element("i", { className: "range" });
    range.style.left = place(low);
    range.style.right = `${100 - parseFloat(place(high))}%`;
    const dot = element("i", { className: "dot" });
    dot.style.left = place(mean);
    const drawn = element("span", { className: "bar" }, range, dot);
    drawn.setAttribute("aria-hidden", "true");
    return element(
      "span",
      { className: "interval" },
      element("span", { className: "numbers" }, interval(mean, variance)),
      drawn,
    );
  }

  function nameButton({ who }) {
    const button = element("button", { type: "button", className: "name" }, data.names[who]);
    button.title = "Show or hide the curve";
    button.setAttribute("aria-pressed", String(chart.has(who)));
    button.dataset.who = who;
    button.addEventListener("click", () => chart.toggle(who));
    return button;
  }

  const share = Math.round(100 * data.interval);
  const columns = [
    { label: "Rank", value: (r) => r.rank, cell: (r) => String(r.rank), number: true },
    { label: "Name", value: (r) => data.names[r.who], cell: nameButton, heads: true, kind: "who" },
    {
      label: "Rating",
      value: (r) => r.mean,
      cell: (r) => rating(r.mean),
      number: true,
      falls: true,
      kind: "strong",
    },
    {
      label: `${share} % interval`,
      hint: "Interval of the rating; sorts by its lower end",
      value: (r) => bounds(r.mean, r.variance)[0],
      cell: bar,
      falls: true,
      kind: "wide",
    },
    {
      label: "Ranks",
      hint: `${share} % interval of the rank`,
      value: (r) => r.rankLower + r.rankUpper / 1e6,
      cell: (r) => `${r.rankLower}–${r.rankUpper}`,
      number: true,
      minor: true,
    },
    {
      label: "Best",
      hint: "The probability of being the best of all",
      value: (r) => r.best,
      cell: (r) => percent(r.best),
      number: true,
      falls: true,
      minor: true,
    },
    {
      label: "Peak",
      hint: "The highest rating so far, with its year",
      value: (r) => r.peak.mean,
      cell: (r) =>
        element(
          "span",
          {},
          rating(r.peak.mean),
          element("small", {}, data.time.dates ? String(new Date(r.peak.time).getUTCFullYear()) : ""),
        ),
      number: true,
      falls: true,
      minor: true,
    },
    {
      label: data.ranking ? "Events" : "Matches",
      value: (r) => board.matches[r.who],
      cell: (r) => board.matches[r.who].toLocaleString("en-GB"),
      number: true,
      falls: true,
      minor: true,
    },
    {
      label: data.ranking ? "Last event" : "Last match",
      value: (r) => board.last[r.who],
      cell: (r) => time(board.last[r.who]),
      number: true,
      falls: true,
      minor: true,
    },
  ];

  function start() {
    const table = Jaxkick.table(document.getElementById("board"), columns, {
      caption: "Leaderboard",
      empty: "No competitor matches this text.",
    });
    const all = rowsOf(board.all);
    const active = board.active ? rowsOf(board.active) : null;
    const filter = document.getElementById("filter");
    const onlyActive = document.getElementById("only-active");
    document.getElementById("active-label").hidden = !active;
    onlyActive.checked = Boolean(active);
    const asOf = document.getElementById("board-time");
    asOf.textContent = time(data.time.last);
    asOf.parentElement.hidden = span === 0;

    function fill() {
      const rows = active && onlyActive.checked ? active : all;
      extent = extentOf(rows.flatMap((row) => bounds(row.mean, row.variance)));
      const wanted = filter.value.trim().toLowerCase();
      table.fill(rows.filter((row) => data.names[row.who].toLowerCase().includes(wanted)));
    }

    filter.addEventListener("input", fill);
    onlyActive.addEventListener("change", fill);
    onScale(() => table.draw());
    chart.onChange(() => {
      for (const button of document.querySelectorAll("#board button.name")) {
        button.setAttribute("aria-pressed", String(chart.has(Number(button.dataset.who))));
      }
    });
    fill();
    return (active || all).map(({ who }) => who);
  }

  return { start };
})();
