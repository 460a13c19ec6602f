"use strict";

// Special functions and integrals over a normal score.
const Jaxkick = {};

Jaxkick.numbers = (() => {
  const REACH = 8.5;

  function normalCdf(x) {
    if (x < -REACH) return 0;
    if (x > REACH) return 1;
    let term = x;
    let sum = x;
    for (let k = 3; Math.abs(term) > 1e-17; k += 2) {
      term *= (x * x) / k;
      sum += term;
    }
    return 0.5 + (sum * Math.exp(-0.5 * x * x)) / Math.sqrt(2 * Math.PI);
  }

  // The place below which a standard normal number is with the probability p.
  function normalQuantile(p) {
    let low = -REACH;
    let high = REACH;
    while (high - low > 1e-12) {
      const middle = 0.5 * (low + high);
      if (normalCdf(middle) < p) low = middle;
      else high = middle;
    }
    return 0.5 * (low + high);
  }

  const logistic = (x) => 1 / (1 + Math.exp(-x));

  // Places and weights of the trapezoidal rule for a function that changes over a width.
  function normalNodes(mean, deviation, width) {
    if (!(deviation > 0)) return [{ place: mean, weight: 1 }];
    const step = Math.max(0.2 * Math.min(1, width / deviation), (2 * REACH) / 4000);
    const half = Math.ceil(REACH / step);
    const nodes = [];
    let total = 0;
    for (let k = -half; k <= half; k += 1) {
      const x = k * step;
      const weight = Math.exp(-0.5 * x * x);
      total += weight;
      nodes.push({ place: mean + deviation * x, weight });
    }
    for (const node of nodes) node.weight /= total;
    return nodes;
  }

  function normalMean(fn, mean, deviation, width) {
    let sum = 0;
    for (const { place, weight } of normalNodes(mean, deviation, width)) sum += weight * fn(place);
    return sum;
  }

  function logFactorials(top) {
    const logs = [0];
    for (let k = 1; k <= top; k += 1) logs.push(logs[k - 1] + Math.log(k));
    return logs;
  }

  // exp(-x) I_k(x) for k from 0 to top: recurrence from above, then e^x = I_0 + 2 I_1 + 2 I_2 …
  function scaledBessel(x, top) {
    const start = top + 20 + Math.ceil(12 * Math.sqrt(top + x + 1));
    const values = new Float64Array(start + 2);
    values[start] = 1e-300;
    for (let k = start; k > 0; k -= 1) {
      values[k - 1] = values[k + 1] + ((2 * k) / x) * values[k];
      if (values[k - 1] > 1e250) for (let j = k - 1; j <= start; j += 1) values[j] *= 1e-250;
    }
    let total = values[0];
    for (let k = 1; k <= start; k += 1) total += 2 * values[k];
    return values.slice(0, top + 1).map((value) => value / total);
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

  return {
    extentOf,
    logFactorials,
    logistic,
    normalCdf,
    normalMean,
    normalNodes,
    normalQuantile,
    scaledBessel,
  };
})();
