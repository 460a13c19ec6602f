// A match of two competitors at a time: the numbers, without the page.
Jaxkick.forecast = (() => {
  const { combine, data } = Jaxkick.scores;
  const { describe, describeCounts } = Jaxkick.outcomes;

  // `home`: +1 the first side, -1 the second, 0 nobody; `values`: coefficients of covariates.
  function favours(home, values) {
    const terms = data.covariates.map(({ feature }, place) => [feature, values[place] || 0]);
    if (data.home !== null) terms.push([data.home, home]);
    return terms;
  }

  // Attack against defence, both ways; the scores share the level and the covariates.
  function forecastCounts(first, second, time, shared) {
    const side = (one, other, sign) =>
      combine(
        [
          [2 * one, 1],
          [2 * other + 1, -1],
          [data.level, 1],
          ...shared.map(([feature, value]) => [feature, sign * value]),
        ],
        time,
      );
    const own = side(first, second, 1);
    const other = side(second, first, -1);
    const covariance =
      combine([[data.level, 1]], time).variance - combine(shared, time).variance;
    return { own, other, ...describeCounts(own, other, covariance) };
  }

  return ({ first, second, time, home = 0, values = [] }) => {
    const shared = favours(home, values);
    if (data.outcome.kind === "counts") return forecastCounts(first, second, time, shared);
    const sides = [];
    for (let part = 0; part < data.parts; part += 1) {
      sides.push([data.parts * first + part, 1], [data.parts * second + part, -1]);
    }
    const score = combine([...sides, ...shared], time);
    return { ...score, ...describe(data.outcome, score.mean, score.variance, data.interval) };
  };
})();
