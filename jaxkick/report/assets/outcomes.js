// What a normal score says of outcomes, by the formula of the likelihood.
Jaxkick.outcomes = (() => {
  const {
    logFactorials,
    logistic,
    normalCdf,
    normalMean,
    normalNodes,
    normalQuantile,
    scaledBessel,
  } = Jaxkick.numbers;
  const MOST_COUNT = 600;
  const SHARED_STEPS = 20;

  // Probabilities of ordered levels: score plus noise lies between two thresholds.
  function ordinal({ noise, cuts }, mean, variance) {
    const above = cuts.map((cut) =>
      noise === "normal"
        ? normalCdf((mean - cut) / Math.sqrt(1 + variance))
        : normalMean((f) => logistic(f - cut), mean, Math.sqrt(variance), 2),
    );
    const ends = [1, ...above, 0];
    return ends.slice(0, -1).map((p, k) => Math.max(p - ends[k + 1], 0));
  }

  const sum = (values) => values.reduce((total, value) => total + value, 0);

  function resultOf({ start, chances }) {
    const result = [0, 0, 0];
    chances.forEach((p, k) => {
      result[Math.sign(start + k) + 1] += p;
    });
    const total = sum(result);
    return result.map((p) => p / total);
  }

  function quantileOf({ start, chances }, p) {
    const total = sum(chances);
    let below = 0;
    for (let k = 0; k < chances.length; k += 1) {
      below += chances[k] / total;
      if (below >= p) return start + k;
    }
    return start + chances.length - 1;
  }

  const growth = (variance) => Math.expm1(variance);

  function largestCount(logRate, deviation) {
    const rate = Math.exp(logRate + 6 * deviation);
    return Math.min(Math.ceil(rate + 8 * Math.sqrt(rate) + 12), MOST_COUNT);
  }

  function poissonChances(mean, variance, top) {
    const deviation = Math.sqrt(variance);
    const logs = logFactorials(top);
    const chances = new Array(top + 1).fill(0);
    const width = 1.5 / Math.sqrt(1 + Math.exp(mean + 2 * deviation));
    for (const { place, weight } of normalNodes(mean, deviation, width)) {
      const rate = Math.exp(place);
      for (let k = 0; k <= top; k += 1) chances[k] += weight * Math.exp(k * place - rate - logs[k]);
    }
    return chances;
  }

  function poisson(mean, variance) {
    const expected = Math.exp(mean + 0.5 * variance);
    return {
      expected,
      deviation: Math.sqrt(expected + expected * expected * growth(variance)),
      distribution: {
        start: 0,
        chances: poissonChances(mean, variance, largestCount(mean, Math.sqrt(variance))),
      },
    };
  }

  // Rates exp(base + f) and exp(base - f): their product, and so the Bessel function, is constant.
  function skellam({ base_rate: base }, mean, variance) {
    const deviation = Math.sqrt(variance);
    const rate = Math.exp(base);
    const top = largestCount(base + Math.abs(mean), deviation);
    const bessel = scaledBessel(2 * rate, top);
    const width = 1.5 / Math.sqrt(1 + rate * Math.exp(Math.abs(mean) + 2 * deviation));
    const chances = new Array(2 * top + 1).fill(0);
    for (const { place, weight } of normalNodes(mean, deviation, width)) {
      const excess = 2 * rate * (Math.cosh(place) - 1);
      for (let d = -top; d <= top; d += 1) {
        chances[d + top] += weight * Math.exp(d * place - excess) * bessel[Math.abs(d)];
      }
    }
    const up = Math.exp(0.5 * variance + mean);
    const down = Math.exp(0.5 * variance - mean);
    const spread = (up * up + down * down) * growth(variance) + 2 * (up * down - 1);
    return {
      expected: rate * (up - down),
      deviation: Math.sqrt(rate * (up + down) + rate * rate * spread),
      distribution: { start: -top, chances },
    };
  }

  // Joint probabilities of two counts, independent given what their scores share.
  function countGrid(first, second, covariance) {
    const tops = [first, second].map(({ mean, variance }) =>
      largestCount(mean, Math.sqrt(variance)),
    );
    const ratio = second.variance > 0 ? Math.sqrt(first.variance / second.variance) : 1;
    const size = Math.abs(covariance);
    const along = Math.sqrt(Math.min(size * (ratio || 1), first.variance));
    const across =
      Math.sign(covariance) * Math.sqrt(Math.min(size / (ratio || 1), second.variance));
    const shared = size > 0 ? normalNodes(0, 1, 8.5 / SHARED_STEPS) : [{ place: 0, weight: 1 }];
    const grid = Array.from({ length: tops[0] + 1 }, () => new Array(tops[1] + 1).fill(0));
    for (const { place, weight } of shared) {
      const own = poissonChances(
        first.mean + along * place,
        Math.max(first.variance - along * along, 0),
        tops[0],
      );
      const other = poissonChances(
        second.mean + across * place,
        Math.max(second.variance - across * across, 0),
        tops[1],
      );
      own.forEach((p, i) => other.forEach((q, j) => (grid[i][j] += weight * p * q)));
    }
    return grid;
  }

  function gridResult(grid) {
    const result = [0, 0, 0];
    grid.forEach((row, i) => row.forEach((p, j) => (result[Math.sign(i - j) + 1] += p)));
    const total = sum(result);
    return result.map((p) => p / total);
  }

  function numberOutcome(outcome, mean, variance, interval) {
    const tail = 0.5 - 0.5 * interval;
    if (outcome.kind === "normal") {
      const deviation = Math.sqrt(variance + outcome.variance);
      const reach = normalQuantile(1 - tail) * deviation;
      const win = normalCdf(mean / deviation);
      return { expected: mean, lower: mean - reach, upper: mean + reach, result: [1 - win, 0, win] };
    }
    const made = outcome.kind === "poisson" ? poisson(mean, variance) : skellam(outcome, mean, variance);
    return {
      expected: made.expected,
      deviation: made.deviation,
      lower: quantileOf(made.distribution, tail),
      upper: quantileOf(made.distribution, 1 - tail),
      distribution: made.distribution,
      result: outcome.kind === "skellam" ? resultOf(made.distribution) : null,
    };
  }

  // The outcome of one score; `result` holds loss, tie and win where there are such.
  function describe(outcome, mean, variance, interval) {
    if (outcome.kind === "score") return {};
    if (outcome.kind !== "ordinal") return numberOutcome(outcome, mean, variance, interval);
    const chances = ordinal(outcome, mean, variance);
    if (!outcome.results) return { levels: outcome.levels, chances };
    return { result: chances.length === 2 ? [chances[0], 0, chances[1]] : chances };
  }

  function describeCounts(first, second, covariance) {
    const grid = countGrid(first, second, covariance);
    const expected = ({ mean, variance }) => Math.exp(mean + 0.5 * variance);
    return { grid, goals: [expected(first), expected(second)], result: gridResult(grid) };
  }

  return { describe, describeCounts };
})();
