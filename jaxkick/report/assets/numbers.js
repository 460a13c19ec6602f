"use strict";

// Numbers behind the page: lines between the knots of curves, and tables of outcomes.
const Jaxkick = {};

Jaxkick.numbers = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const span = data.time.end - data.time.begin;

  function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float32Array.from({ length: bytes.length / 4 }, (_, k) => view.getFloat32(4 * k, true));
  }

  const unpackAll = (parts) =>
    Object.fromEntries(Object.entries(parts).map(([name, text]) => [name, unpack(text)]));

  const { counts, ...packed } = data.curves;
  const { times, means, deviations } = unpackAll(packed);
  const begins = [0];
  for (const count of counts) begins.push(begins.at(-1) + count);

  // The two knots around x among those from `low` to `high`, and the share of the second.
  function locate(knots, x, low = 0, high = knots.length - 1) {
    if (x <= knots[low]) high = low;
    else if (x >= knots[high]) low = high;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (knots[middle] <= x) low = middle;
      else high = middle;
    }
    const width = knots[high] - knots[low];
    return [low, high, width > 0 ? (x - knots[low]) / width : 0];
  }

  // Mean and variance of a feature's score.
  function feature(number, time) {
    const place = span > 0 ? (time - data.time.begin) / span : 0;
    const [low, high, share] = locate(times, place, begins[number], begins[number + 1] - 1);
    const mean = means[low] + share * (means[high] - means[low]);
    const deviation = deviations[low] + share * (deviations[high] - deviations[low]);
    return { mean, variance: deviation * deviation };
  }

  // Independent scores with coefficients: means and variances add.
  function combine(terms, time) {
    const total = { mean: 0, variance: 0 };
    for (const [number, coefficient] of terms) {
      const score = feature(number, time);
      total.mean += coefficient * score.mean;
      total.variance += coefficient * coefficient * score.variance;
    }
    return total;
  }

  const partsOf = (competitor) =>
    Array.from({ length: data.parts }, (_, part) => data.parts * competitor + part);

  // The features whose sum is the score of a competitor: of attack, defence and their sum, the last.
  const sumOf = (competitor) => (data.parts === 3 ? partsOf(competitor).slice(2) : partsOf(competitor));

  // A competitor's own score, with the uncertainty that all competitors share.
  function competitor(number, time) {
    const terms = sumOf(number).map((part) => [part, 1]);
    const { mean, variance } = combine(terms, time);
    return { mean, variance: variance * data.widen[number] ** 2 };
  }

  // The highest mean while a competitor played, among the knots.
  function peak(number) {
    const { first, last } = data.board;
    let best = { mean: -Infinity, time: last[number] };
    const consider = (time) => {
      const { mean } = competitor(number, time);
      if (mean > best.mean) best = { mean, time };
    };
    consider(first[number]);
    consider(last[number]);
    for (const part of sumOf(number)) {
      for (let k = begins[part]; k < begins[part + 1]; k += 1) {
        const time = data.time.begin + times[k] * span;
        if (time >= first[number] && time <= last[number]) consider(time);
      }
    }
    return best;
  }

  // A function from a normal score to the columns of a table, bilinear between its knots.
  function reader(packedTable) {
    const table = unpackAll(packedTable);
    const width = table.values.length / (table.means.length * table.deviations.length);
    const covers = ({ mean }) => mean >= table.means[0] && mean <= table.means.at(-1);
    function read({ mean, variance }) {
      const [top, bottom, down] = locate(table.means, mean);
      const [left, right, across] = locate(table.deviations, Math.sqrt(variance));
      const start = (row, column) => (row * table.deviations.length + column) * width;
      const corners = [
        [start(top, left), (1 - down) * (1 - across)],
        [start(top, right), (1 - down) * across],
        [start(bottom, left), down * (1 - across)],
        [start(bottom, right), down * across],
      ];
      return Array.from({ length: width }, (_, column) =>
        corners.reduce((sum, [begin, weight]) => sum + weight * table.values[begin + column], 0),
      );
    }
    return { covers, read };
  }

  // What follows from one score: loss, tie and win, or levels; and numbers with their interval.
  function describe({ read }, { columns, levels, whole }, score) {
    const row = read(score);
    const found = Object.fromEntries(columns.map((name, place) => [name, row[place]]));
    const { expected, loss, tie, win } = found;
    const [lower, upper] = [found.lower, found.upper].map((end) => (whole ? Math.round(end) : end));
    return {
      ...(win === undefined ? {} : { result: [loss, tie, win] }),
      ...(levels ? { levels, chances: row.slice(0, levels.length) } : {}),
      ...(expected === undefined ? {} : { expected, lower, upper }),
    };
  }

  // The counts of both sides: independent given what their scores share, except that both may have
  // some in common, and that low ones may be moved between ties and wins by one.
  function describeCounts({ read }, outcome, first, second, covariance) {
    const { nodes, weights, widths, common, moved } = outcome;
    const known = first.variance === 0 || second.variance === 0;
    const ratio = known ? 1 : Math.sqrt(first.variance / second.variance);
    const size = Math.abs(covariance);
    const along = Math.sqrt(Math.min(size * ratio, first.variance));
    const across = Math.sign(covariance) * Math.sqrt(Math.min(size / ratio, second.variance));
    const chances = ({ mean, variance }, slope, node) => {
      const [, ...below] = read({
        mean: mean + slope * node,
        variance: Math.max(variance - slope * slope, 0),
      });
      return below.map((p, k) => p - (below[k - 1] ?? 0));
    };
    const own = nodes.map((node) => chances(first, along, node));
    const other = nodes.map((node) => chances(second, across, node));
    const separate = own[0].map((_, i) =>
      own[0].map((__, j) =>
        weights.reduce((sum, weight, n) => sum + weight * own[n][i] * other[n][j], 0),
      ),
    );
    const change = moved && moved * separate[1][1];
    for (const [i, j] of change ? [[0, 0], [0, 1], [1, 0], [1, 1]] : []) {
      separate[i][j] += i === j ? -change : change;
    }
    const grid = separate.map((row, i) =>
      row.map((_, j) =>
        common.reduce((sum, p, k) => sum + p * (separate[i - k]?.[j - k] ?? 0), 0),
      ),
    );
    const shared = common.reduce((sum, p, k) => sum + p * k, 0);
    const result = [0, 0, 0];
    grid.forEach((row, i) => row.forEach((p, j) => (result[Math.sign(i - j) + 1] += p)));
    // Within a class of several counts, either side is ahead as often.
    const tie = widths.reduce((sum, width, i) => sum + grid[i][i] / width, 0);
    const ahead = 0.5 * (result[1] - tie);
    return {
      goals: [first, second].map((side) => read(side)[0] + shared),
      result: [result[0] + ahead, tie, result[2] + ahead],
      grid,
    };
  }

  const table = data.outcome.table && reader(data.outcome.table);

  // `home`: +1 the first side, -1 the second, 0 neither; `values`: coefficients of covariates.
  function favours(home, values) {
    const terms = data.covariates.map(({ feature: own }, place) => [own, values[place] || 0]);
    if (data.home !== null) terms.push([data.home, home]);
    return terms;
  }

  // The covariance of a team's attack and defence: zero unless there is a curve of their sum.
  function covarianceOf(number, time) {
    const [attack, defence, sum] = partsOf(number).map((part) => feature(part, time).variance);
    return sum === undefined ? 0 : 0.5 * (sum - attack - defence);
  }

  // Attack against defence, both ways; the scores share the level, the covariates and the teams.
  function forecastCounts(first, second, time, shared) {
    const side = (one, other, sign) =>
      combine(
        [
          [data.parts * one, 1],
          [data.parts * other + 1, -1],
          [data.level, 1],
          ...shared.map(([own, value]) => [own, sign * value]),
        ],
        time,
      );
    const own = side(first, second, 1);
    const other = side(second, first, -1);
    if (!table.covers(own) || !table.covers(other)) return { outside: true };
    const covariance =
      combine([[data.level, 1]], time).variance -
      combine(shared, time).variance -
      covarianceOf(first, time) -
      covarianceOf(second, time);
    return describeCounts(table, data.outcome, own, other, covariance);
  }

  // A match of two competitors at a time.
  function forecast({ first, second, time, home = 0, values = [] }) {
    const shared = favours(home, values);
    if (data.outcome.counts && table) return forecastCounts(first, second, time, shared);
    const sides = [
      ...sumOf(first).map((part) => [part, 1]),
      ...sumOf(second).map((part) => [part, -1]),
    ];
    const score = combine([...sides, ...shared], time);
    if (!table) return score;
    return table.covers(score)
      ? { ...score, ...describe(table, data.outcome, score) }
      : { ...score, outside: true };
  }

  // The least and the greatest number; there may be more than a call takes arguments.
  function extentOf(values) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    return [low, high];
  }

  return { competitor, data, describe, describeCounts, extentOf, forecast, peak, reader, span };
})();
