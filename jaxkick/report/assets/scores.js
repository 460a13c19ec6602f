// Scores of features and competitors at any time, from the knots that the page carries.
Jaxkick.scores = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const span = data.time.end - data.time.begin;

  function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float32Array.from({ length: bytes.length / 4 }, (_, k) => view.getFloat32(4 * k, true));
  }

  const times = unpack(data.curves.times);
  const means = unpack(data.curves.means);
  const deviations = unpack(data.curves.deviations);
  const begins = [0];
  for (const count of data.curves.counts) begins.push(begins[begins.length - 1] + count);

  // Mean and variance of a feature's score; a line between the two knots around the time.
  function feature(number, time) {
    const share = span > 0 ? (time - data.time.begin) / span : 0;
    let low = begins[number];
    let high = begins[number + 1] - 1;
    if (share <= times[low]) high = low;
    else if (share >= times[high]) low = high;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (times[middle] <= share) low = middle;
      else high = middle;
    }
    const width = times[high] - times[low];
    const part = width > 0 ? (share - times[low]) / width : 0;
    const mean = means[low] + part * (means[high] - means[low]);
    const deviation = deviations[low] + part * (deviations[high] - deviations[low]);
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

  const competitor = (number, time) =>
    combine(
      partsOf(number).map((part) => [part, 1]),
      time,
    );

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
    for (const part of partsOf(number)) {
      for (let k = begins[part]; k < begins[part + 1]; k += 1) {
        const time = data.time.begin + times[k] * span;
        if (time >= first[number] && time <= last[number]) consider(time);
      }
    }
    return best;
  }

  return { combine, competitor, data, peak, span };
})();
