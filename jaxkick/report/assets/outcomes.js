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
  // Larger counts are as good as normal.
  const MOST_COUNT = 4000;
  const MOST_OF_TWO = 300;
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
    return Math.ceil(rate + 8 * Math.sqrt(rate) + 12);
  }

  // Loss, tie and win from the mean and deviation of a difference of large counts.
  function normalResult(expected, deviation) {
    const below = normalCdf((-0.5 - expected) / deviation);
    const tie = normalCdf((0.5 - expected) / deviation) - below;
    return [below, tie, 1 - below - tie];
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
    const deviation = Math.sqrt(expected + expected * expected * growth(variance));
    const top = largestCount(mean, Math.sqrt(variance));
    if (top > MOST_COUNT) return { expected, deviation };
    const distribution = { start: 0, chances: poissonChances(mean, variance, top) };
    return { expected, deviation, distribution };
  }

  // Rates exp(base + f) and exp(base - f): their product, and so the Bessel function, is constant.
  function skellamChances(base, mean, deviation, top) {
    const rate = Math.exp(base);
    const bessel = scaledBessel(2 * rate, top);
    const width = 1.5 / Math.sqrt(1 + rate * Math.exp(Math.abs(mean) + 2 * deviation));
    const chances = new Array(2 * top + 1).fill(0);
    for (const { place, weight } of normalNodes(mean, deviation, width)) {
      const excess = 2 * rate * (Math.cosh(place) - 1);
      for (let d = -top; d <= top; d += 1) {
        chances[d + top] += weight * Math.exp(d * place - excess) * bessel[Math.abs(d)];
      }
    }
    return chances;
  }

  function skellam({ base_rate: base }, mean, variance) {
    const rate = Math.exp(base);
    const up = Math.exp(0.5 * variance + mean);
    const down = Math.exp(0.5 * variance - mean);
    const spread = (up * up + down * down) * growth(variance) + 2 * (up * down - 1);
    const expected = rate * (up - down);
    const deviation = Math.sqrt(rate * (up + down) + rate * rate * spread);
    const top = largestCount(base + Math.abs(mean), Math.sqrt(variance));
    if (top > MOST_COUNT) return { expected, deviation };
    const chances = skellamChances(base, mean, Math.sqrt(variance), top);
    return { expected, deviation, distribution: { start: -top, chances } };
  }

  // Joint probabilities of two counts, independent given what their scores share.
  function countGrid(first, second, covariance, tops) {
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

  function normalOutcome(mean, variance, interval) {
    const deviation = Math.sqrt(variance);
    const reach = normalQuantile(0.5 + 0.5 * interval) * deviation;
    const win = normalCdf(mean / deviation);
    return { expected: mean, lower: mean - reach, upper: mean + reach, result: [1 - win, 0, win] };
  }

  function countOutcome(outcome, mean, variance, interval) {
    const signed = outcome.kind === "skellam";
    const { expected, deviation, distribution } = signed
      ? skellam(outcome, mean, variance)
      : poisson(mean, variance);
    const tail = 0.5 - 0.5 * interval;
    if (!distribution) {
      const [lower, upper] = [tail, 1 - tail].map((p) =>
        Math.round(expected + deviation * normalQuantile(p)),
      );
      const result = signed ? normalResult(expected, deviation) : null;
      return { expected, lower, upper, result };
    }
    const [lower, upper] = [tail, 1 - tail].map((p) => quantileOf(distribution, p));
    return { expected, lower, upper, result: signed ? resultOf(distribution) : null };
  }

  // The outcome of one score; `result` holds loss, tie and win where there are such.
  function describe(outcome, mean, variance, interval) {
    if (outcome.kind === "score") return {};
    if (outcome.kind === "normal") return normalOutcome(mean, variance + outcome.variance, interval);
    if (outcome.kind !== "ordinal") return countOutcome(outcome, mean, variance, interval);
    const chances = ordinal(outcome, mean, variance);
    if (!outcome.results) return { levels: outcome.levels, chances };
    return { result: chances.length === 2 ? [chances[0], 0, chances[1]] : chances };
  }

  // The counts of both sides, whose scores have a covariance.
  function describeCounts(first, second, covariance) {
    const sides = [first, second];
    const goals = sides.map(({ mean, variance }) => Math.exp(mean + 0.5 * variance));
    const tops = sides.map(({ mean, variance }) => largestCount(mean, Math.sqrt(variance)));
    if (Math.max(...tops) <= MOST_OF_TWO) {
      const grid = countGrid(first, second, covariance, tops);
      return { grid, goals, result: gridResult(grid) };
    }
    const own = sides.map(({ variance }, k) => goals[k] + goals[k] ** 2 * growth(variance));
    const shared = goals[0] * goals[1] * growth(covariance);
    const deviation = Math.sqrt(own[0] + own[1] - 2 * shared);
    return { goals, result: normalResult(goals[0] - goals[1], deviation) };
  }

  return { describe, describeCounts };
})();
