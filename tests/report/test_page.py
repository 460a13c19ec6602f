"""The page in a real browser agrees with Python, is accessible and is safe."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxkick as jk
from jaxkick.likelihoods import AbstractLikelihood
from jaxkick.report import write_report
from jaxkick.report.outcome_tables import Range, tabulate_counts, tabulate_outcomes
from tests.report.browser import browser_path
from tests.report.leagues import HOSTILE, goals_league, hostile_league
from tests.report.truths import cases

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", exc_type=ImportError)
    path = browser_path()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Visit:
    """A page that is open, and all that it complained of or asked the network for."""

    def __init__(self, browser, path, **settings):
        self.complaints, self.requests = [], []
        self.page = browser.new_context(**settings).new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#plot .main-svg")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    posterior = hostile_league()
    matches = {"date": ["2005-01-01"], "one": [HOSTILE[1]], "two": [HOSTILE[0]], "ground": [1.0]}
    path = tmp_path_factory.mktemp("report") / "page.html"
    return write_report(path, posterior, title=HOSTILE[0], forecasts=posterior.forecast(matches))


@pytest.fixture(scope="module")
def visit(browser, report):
    return Visit(browser, report, viewport={"width": 1200, "height": 900})


@pytest.fixture
def page(visit):
    return visit.page


def choose(page, field, name):
    """Find a competitor with the keyboard alone."""
    page.focus(field)
    page.keyboard.type(name)
    page.keyboard.press("Enter")


def shown_chances(page):
    texts = page.locator("#answer dd").all_inner_texts()
    return [float(text.removesuffix(" %")) / 100 for text in texts]


@pytest.mark.parametrize(
    ("first", "second", "date", "home"),
    [
        (HOSTILE[0], "Zoë", "2002-02-02", 0),
        ("Zoë", HOSTILE[3], "2004-11-30", 1),
        (HOSTILE[1], HOSTILE[2], "2006-12-01", -1),
    ],
)
def test_forecasts(page, first, second, date, home):
    choose(page, "#first", first)
    choose(page, "#second", second)
    page.fill("#when", date)
    page.locator(f"input[name=venue][value='{home}'] + span").click()
    match = hostile_league().predict(first, second, date, home=home)
    loss, tie, win = match.p_loss, match.p_tie, match.p_win
    np.testing.assert_allclose(shown_chances(page), [win, tie, loss], atol=2e-3)
    assert page.locator("#answer dt").all_inner_texts()[0] == f"{first} wins"


def test_forecasts_that_cannot_be(page):
    page.fill("#when", "1999-01-01")
    assert "Choose a date from" in page.inner_text("#answer")
    page.fill("#when", "2005-01-01")
    sides = page.input_value("#first"), page.input_value("#second")
    page.click("#swap")
    assert (page.input_value("#second"), page.input_value("#first")) == sides
    choose(page, "#second", page.input_value("#first"))
    assert "two different competitors" in page.inner_text("#answer")


def test_every_day_is_as_python_says(page):
    posterior, rng = hostile_league(), np.random.default_rng(0)
    names = page.evaluate("Jaxkick.numbers.data.names")
    span = page.evaluate("Jaxkick.numbers.data.time")
    first = rng.integers(0, 6, 200)
    second = (first + rng.integers(1, 6, 200)) % 6
    home = rng.integers(-1, 2, 200)
    times = np.floor(rng.uniform(span["begin"], span["end"], 200)).astype(np.int64)
    columns = zip(*(part.tolist() for part in (first, second, times, home)), strict=True)
    found = page.evaluate(
        "all => all.map(([first, second, time, home]) =>"
        " Jaxkick.numbers.forecast({ first, second, time, home }).result)",
        [list(match) for match in columns],
    )
    expected = posterior.predict(
        [names[place] for place in first],
        [names[place] for place in second],
        times.astype("M8[ms]"),
        home=home,
    )
    results = [expected.p_loss, expected.p_tie, expected.p_win]
    np.testing.assert_allclose(found, np.stack(results, axis=-1), atol=2e-3)


def ask(page, spec, scores):
    """The numbers that the page reads from a table of outcomes for normal scores."""
    return page.evaluate(
        """([spec, scores]) => {
          const { describe, reader } = Jaxkick.numbers;
          const table = reader(spec.table);
          return scores.map(([mean, variance]) => describe(table, spec, { mean, variance }));
        }""",
        [spec, np.asarray(scores).tolist()],
    )


def test_tables_at_knots(page):
    for likelihood, mean, variance, truth in cases():
        deviation = np.sqrt(variance)
        spec = tabulate_outcomes(
            likelihood, 0.9, Range((mean, mean + 0.5), (deviation, 1.2 * deviation))
        )
        (found,) = ask(page, spec, [(mean, variance)])
        for name, value in truth.items():
            np.testing.assert_allclose(
                found[name], value, rtol=1e-6, atol=1e-6, err_msg=f"{likelihood!r}: {name}"
            )


class Sharp(AbstractLikelihood):
    """A likelihood of a user: -1, 0 and 1, with ties for scores near zero."""

    @property
    def levels(self):
        return (-1.0, 0.0, 1.0)

    def log_prob(self, outcome, score):
        scores = 8.0 * jnp.stack([-score - 0.3, 0.0 * score, score - 0.3])
        chosen = jnp.stack([outcome == -1.0, outcome == 0.0, outcome == 1.0])
        return jnp.sum(jnp.where(chosen, jax.nn.log_softmax(scores, axis=0), 0.0), axis=0)


LIKELIHOODS = [
    Sharp(),
    jk.likelihoods.OrdinalProbit(margin=0.05),
    jk.likelihoods.OrdinalProbit(cuts=[-1.0, 0.2, 0.9]),
    jk.likelihoods.Gaussian(2.0),
    jk.likelihoods.Skellam(0.3),
]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: type(each).__name__)
def test_tables_between_knots(page, likelihood):
    rng = np.random.default_rng(5)
    mean, deviation = rng.uniform(-1.2, 1.2, 400), rng.uniform(0.05, 0.5, 400)
    spec = tabulate_outcomes(likelihood, 0.9, Range((-1.2, 1.2), (0.05, 0.5)))
    found = ask(page, spec, np.stack([mean, deviation**2], axis=-1))
    truth = jk.Prediction(jnp.asarray(mean), jnp.asarray(deviation**2), likelihood)
    if "win" in spec["columns"]:
        results = np.stack([truth.p_loss, truth.p_tie, truth.p_win], axis=-1)
        np.testing.assert_allclose([each["result"] for each in found], results, atol=1e-3)
    if spec["levels"]:
        chances = [each["chances"] for each in found]
        np.testing.assert_allclose(chances, truth.probabilities, atol=1e-3)
    if not likelihood.levels:
        ends = np.array([[each[end] for end in ("lower", "upper")] for each in found])
        quantile = jax.jit(lambda p: truth.outcome_quantile(p))
        low, high = (
            np.stack([quantile(p + shift) for p in (0.05, 0.95)], axis=-1)
            for shift in (-2e-3, 2e-3)
        )
        assert np.all((low <= ends) & (ends <= high))
        expected = np.array([each["expected"] for each in found])
        width = high[:, 1] - low[:, 0]
        assert np.max(np.abs(expected - truth.outcome_mean) / width) < 2e-3


def test_large_counts(page):
    rate = np.exp(8.5)
    spec = tabulate_outcomes(jk.likelihoods.Poisson(), 0.9, Range((8.5, 8.6), (0.0, 0.01)))
    (count,) = ask(page, spec, [(8.5, 0.0)])
    ends = stats.poisson.ppf([0.05, 0.95], rate)
    np.testing.assert_allclose([count["lower"], count["upper"]], ends, atol=2)
    skellam = jk.likelihoods.Skellam(8.5)
    spec = tabulate_outcomes(skellam, 0.9, Range((-0.01, 0.01), (0.0, 0.01)))
    (difference,) = ask(page, spec, [(0.004, 0.0)])
    rates = rate * np.exp(0.004), rate * np.exp(-0.004)
    below, tie = stats.skellam.cdf(-1, *rates), stats.skellam.pmf(0, *rates)
    np.testing.assert_allclose(difference["result"], [below, tie, 1 - below - tie], atol=1e-3)
    spec = tabulate_counts(jk.likelihoods.Poisson(), Range((5.0, 5.3), (0.0, 0.02)))
    sides = {"mean": 5.2, "variance": 1e-4}, {"mean": 5.1, "variance": 1e-4}
    both = page.evaluate(
        """([spec, ...rest]) => {
          const { describeCounts, reader } = Jaxkick.numbers;
          return describeCounts(reader(spec.table), spec, ...rest);
        }""",
        [spec, *sides, 5e-5],
    )
    scores = np.random.default_rng(0).multivariate_normal(
        [5.2, 5.1], [[1e-4, 5e-5], [5e-5, 1e-4]], 200
    )
    chances = [stats.skellam.sf(0, *np.exp(pair)) for pair in scores]
    error = 4 * np.std(chances) / np.sqrt(200) + 1e-3
    assert abs(both["result"][2] - np.mean(chances)) < error


def test_more_numbers_than_a_call_takes_arguments(page):
    numbers = "Array.from({ length: 500000 }, (_, k) => Math.abs(k - 300000))"
    assert page.evaluate(f"Jaxkick.numbers.extentOf({numbers})") == [0, 300000]


def test_only_counts_have_a_table_of_counts():
    for likelihood in (jk.likelihoods.Gaussian(1.0), jk.likelihoods.Probit(), Sharp()):
        assert tabulate_counts(likelihood, Range((0.0, 1.0), (0.1, 1.0)))["table"] is None


COLUMNS = [
    "Rank",
    "Name",
    "Rating",
    "90 % interval",
    "Ranks",
    "Best",
    "Peak",
    "Matches",
    "Last match",
]


def test_sorting(page):
    posterior = hostile_league()
    page.uncheck("#only-active")
    assert page.locator("#board thead th").all_text_contents() == COLUMNS
    board = posterior.leaderboard(scale="elo")
    names = np.array(board["name"])
    keys = {
        "Name": None,
        "Rating": -board["rating"],
        "90 % interval": -board["lower"],
        "Best": -board["best"],
        "Matches": -board["matches"],
        "Last match": -board["last_active"].astype(np.int64),
        "Ranks": board["rank_lower"] + board["rank_upper"] / 1e6,
        "Rank": board["rank"],
    }
    for label, key in keys.items():
        heading = page.locator("#board thead th").nth(COLUMNS.index(label))
        heading.get_by_role("button").click()
        assert heading.get_attribute("aria-sort") in ("ascending", "descending")
        shown = page.locator("#board tbody button.name").all_text_contents()
        if key is None:
            assert sorted(shown) == sorted(names)
            assert shown.index("O" + HOSTILE[2][1:]) < shown.index("Zoë")
        else:
            assert shown == list(names[np.argsort(key, kind="stable")])
    page.get_by_role("button", name="Rating", exact=True).click(click_count=2)
    assert page.locator("#board tbody button.name").all_text_contents() == list(names[::-1])
    ratings = page.locator("#board tbody td.strong").all_inner_texts()
    np.testing.assert_allclose([float(text) for text in ratings], board["rating"][::-1], atol=0.51)
    page.fill("#filter", "zoë")
    assert page.locator("#board tbody tr").count() == 1
    page.fill("#filter", "")


def test_curves(page):
    page.click("#clear")
    choose(page, "#add", "zoë")
    choose(page, "#add", HOSTILE[3])
    assert page.locator("#chips .name").all_text_contents() == ["Zoë", HOSTILE[3]]
    begin, end = page.evaluate("Jaxkick.chart.view()")
    page.click("#closer")
    nearer = page.evaluate("Jaxkick.chart.view()")
    assert nearer[1] - nearer[0] == pytest.approx(0.5 * (end - begin))
    page.click("#whole")
    assert page.evaluate("Jaxkick.chart.view()") == [begin, end]
    page.locator("#plot").scroll_into_view_if_needed()
    box = page.locator("#plot").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 150)
    page.wait_for_selector("#plot .hoverlayer .legend")
    text = page.locator("#plot .hoverlayer").text_content()
    assert re.search(r"\d+ [A-Z][a-z]{2} 200\d", text)
    assert re.search(r"\d+\s+\(\d+ to \d+\)", text)
    assert page.locator("#plot").get_attribute("aria-label").endswith(f"Zoë, {HOSTILE[3]}")


def test_names_do_no_harm(visit):
    page = visit.page
    page.click("#top")
    assert page.evaluate("typeof hacked") == "undefined"
    assert page.locator("body img, body b, #plot a").count() == 0
    assert page.inner_text("h1") == HOSTILE[0]
    assert page.locator("#forecast-table tbody td").nth(1).text_content() == HOSTILE[1]
    assert visit.complaints == []
    assert len(visit.requests) == 1


def luminance(colour):
    channels = np.array([int(part) for part in re.findall(r"\d+", colour)[:3]]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(page, selector):
    style = (
        "e => [getComputedStyle(e).color, getComputedStyle(e.closest('section')).backgroundColor]"
    )
    dark, light = sorted(map(luminance, page.locator(selector).first.evaluate(style)))
    return (light + 0.05) / (dark + 0.05)


def test_dark_and_narrow(browser, report):
    phone = Visit(browser, report, viewport={"width": 360, "height": 740}, color_scheme="dark")
    page = phone.page
    ground = "() => getComputedStyle(document.body).backgroundColor"
    for expected in (True, False):
        assert (luminance(page.evaluate(ground)) < 0.2) is expected
        assert page.get_attribute("#theme", "aria-pressed") == str(expected).lower()
        for selector in ("#board tbody button.name", "#board thead button", ".notes p"):
            assert contrast(page, selector) > 4.5
        page.click("#theme")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert phone.complaints == []


GOALS = {
    "roles": (False,),
    "aspects": (True,),
    "shared": (True, jk.likelihoods.BivariatePoisson, 0.4),
    "low counts": (False, jk.likelihoods.DixonColes, -0.2),
    "overdispersed": (True, jk.likelihoods.NegativeBinomial, 0.3),
}


@pytest.mark.parametrize("arguments", GOALS.values(), ids=GOALS)
def test_goals(browser, tmp_path, arguments):
    posterior = goals_league(*arguments)
    visit = Visit(browser, write_report(tmp_path / "goals.html", posterior))
    names = visit.page.evaluate("Jaxkick.numbers.data.names")
    for first, second, time, home in [("ant", "bee", 3.7, 1), ("cat", "ant", 12.5, 0)]:
        match = {"first": names.index(first), "second": names.index(second), "time": time}
        found = visit.page.evaluate(
            "match => Jaxkick.numbers.forecast(match)", {**match, "home": home}
        )
        expected = posterior.predict(first, second, time, home=home)
        goals = [expected.first.outcome_mean, expected.second.outcome_mean]
        np.testing.assert_allclose(found["goals"], goals, rtol=5e-3)
        grid = np.asarray(expected.grid(15))
        np.testing.assert_allclose([row[:4] for row in found["grid"][:4]], grid[:4, :4], atol=2e-3)
        result = [np.triu(grid, 1).sum(), np.trace(grid), np.tril(grid, -1).sum()]
        np.testing.assert_allclose(found["result"], result, atol=2e-3)
    for place, name in enumerate(names):
        found = visit.page.evaluate(f"Jaxkick.numbers.competitor({place}, 12)")
        (board,) = posterior.leaderboard(12.0, names=[name], library="pandas").to_dict("records")
        np.testing.assert_allclose(found["mean"], board["rating"], atol=2e-3)
        np.testing.assert_allclose(np.sqrt(found["variance"]), board["deviation"], rtol=5e-3)
    visit.page.fill("#when", "4")
    assert visit.page.locator("table.grid td").count() == 37
    assert visit.complaints == []
