// Elements, and numbers and times as people read them.
Jaxkick.format = (() => {
  const { data, span } = Jaxkick.scores;
  const DAY = 86400000;
  const REACH = Jaxkick.numbers.normalQuantile(0.5 + 0.5 * data.interval);
  const withClock = data.time.dates && span < 30 * DAY;
  const listeners = [];
  let scale = data.scale;

  // An element with properties; children are elements or texts, never markup.
  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in made && name !== "list" && !name.startsWith("aria")) made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  const calendar = new Intl.DateTimeFormat("en-GB", {
    day: "numeric",
    month: "short",
    year: "numeric",
    timeZone: "UTC",
    ...(withClock ? { hour: "2-digit", minute: "2-digit" } : {}),
  });

  function time(value) {
    return data.time.dates ? calendar.format(new Date(value)) : String(Number(value.toPrecision(6)));
  }

  const typical = [...data.board.deviation].sort((a, b) => a - b)[data.names.length >> 1];
  const places = Math.min(Math.max(1 - Math.floor(Math.log10(typical || 1)), 0), 4);

  const minus = (text) => text.replace("-", "\u2212");
  const number = (value, digits) => minus(value.toFixed(digits));
  const level = (mean) => (scale ? scale.centre + scale.factor * mean : mean);
  const rating = (mean) => number(level(mean), scale ? 0 : places);

  function bounds(mean, variance) {
    const reach = REACH * Math.sqrt(variance);
    return [mean - reach, mean + reach];
  }

  const interval = (mean, variance) => bounds(mean, variance).map(rating).join(" to ");

  function percent(p) {
    if (p > 0 && p < 0.001) return "< 0.1 %";
    if (p < 1 && p > 0.999) return "> 99.9 %";
    return `${(100 * p).toFixed(1)} %`;
  }

  function setScale(name) {
    scale = name === "elo" ? data.scale : null;
    for (const listener of listeners) listener();
  }

  return {
    bounds,
    element,
    interval,
    level,
    number,
    onScale: (listener) => listeners.push(listener),
    percent,
    rating,
    setScale,
    time,
    withClock,
  };
})();
