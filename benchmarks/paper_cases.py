"""Cases of `paper_tables.py`: models, parameters and results of the paper."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from paper_data import READERS, as_counts, as_pairs
from paper_extras import mean_field, scalability, starcraft
from scipy.special import gammaln

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.kernels import Affine, Constant, Matern12, Wiener
from jaxkick.likelihoods import Gaussian, Logit, OrdinalLogit, OrdinalProbit, Poisson, Probit

Found = list[float | None]


@dataclass(frozen=True)
class Setting:
    """Amount of data to use."""

    quick: bool

    def games(self, name: str) -> pd.DataFrame:
        """Read the matches; only the last tenth if `quick`."""
        games = READERS[name]()
        return games.tail(len(games) // 10).reset_index(drop=True) if self.quick else games

    def start(self, data: jk.Dataset) -> Any:
        """Return the time of the first match to predict."""
        return ev.split_time(data, 0.9 if self.quick else 0.7)


@dataclass(frozen=True)
class Case:
    """One row of a table: its name, the paper's numbers, and the function that computes ours."""

    name: str
    paper: Found
    run: Callable[[Setting], Found]


@cache
def dataset(setting: Setting, name: str, points: bool, home: bool) -> jk.Dataset:
    """Read the data of a case; cached, because several cases use the same data."""
    return as_pairs(setting.games(name), points, home)


def predict(
    name: str,
    model: Any,
    setting: Setting,
    *,
    learnt: bool = False,
    points: bool = False,
    home: bool = False,
    method: Any = None,
) -> Found:
    """Backtest a model or baseline; return log loss and accuracy."""
    data = dataset(setting, name, points, home)
    forecaster = ev.Refit(model, method) if isinstance(model, jk.Model) else model
    forecasts = ev.walk_forward(
        forecaster, data, setting.start(data), relearn="start" if learnt else None
    )
    return mean_losses(forecasts.probabilities, forecasts.labels)


def mean_losses(probabilities: np.ndarray, labels: np.ndarray) -> Found:
    """Return mean log loss and accuracy."""
    return [
        float(np.mean(ev.log_loss(probabilities, labels))),
        float(np.mean(ev.accuracy(probabilities, labels))),
    ]


def predict_counts(name: str, model: jk.Model, setting: Setting, *, learnt: bool = False) -> Found:
    """Backtest a model of counts; the result follows from two independent counts."""
    games = setting.games(name)
    data = as_counts(games)
    # Under reverse KL, Poisson expectations have a closed form.
    forecasts = ev.walk_forward(
        ev.Refit(model, jk.ReverseKL(damping=0.2)),
        data,
        setting.start(data),
        relearn="start" if learnt else None,
    )
    order = np.argsort(forecasts.rows)
    mean, variance = (part[order].reshape(-1, 2) for part in (forecasts.mean, forecasts.variance))
    difference = games.difference.to_numpy()[forecasts.rows[order][::2] // 2]
    loss, tie, win = signs_of_counts(mean, variance, 250 if name == "nba" else 40)
    if name == "nba":
        return mean_losses(np.stack([loss + tie / 2, win + tie / 2], 1), (difference > 0) * 1)
    return mean_losses(np.stack([loss, tie, win], 1), np.sign(difference).astype(int) + 1)


def signs_of_counts(mean: np.ndarray, variance: np.ndarray, most: int) -> np.ndarray:
    """Return P(first < second), P(equal) and P(first > second) of Poisson counts."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(32)
    counts = np.arange(most)
    found = []
    for begin in range(0, len(mean), 500):
        part = slice(begin, begin + 500)
        score = mean[part, :, None] + np.sqrt(variance[part, :, None]) * nodes
        log_prob = counts[:, None] * score[:, :, None, :] - np.exp(score[:, :, None, :])
        chances = np.exp(log_prob - gammaln(counts + 1.0)[:, None]) @ (weights / weights.sum())
        one, two = chances[:, 0], chances[:, 1]
        below_two = np.cumsum(two, axis=1) - two
        below_one = np.cumsum(one, axis=1) - one
        signs = [(two * below_one).sum(1), (one * two).sum(1), (one * below_two).sum(1)]
        found.append(np.stack(signs) / np.sum(signs, axis=0))
    return np.concatenate(found, axis=1)


def dynamic(constant: float, variance: float, lengthscale: float) -> jk.kernels.AbstractKernel:
    """Return Constant + Matérn 1/2, the kernel of most models of the paper."""
    return Constant(constant) + Matern12(variance, lengthscale)


def twice(name: str, paper: Found, run: Callable, *arguments: Any, **options: Any) -> list[Case]:
    """Return a case with the paper's parameters, and one with learnt parameters."""
    return [
        Case(f"{name}", paper, partial(_late, run, arguments, options)),
        Case(f"{name}, learnt", paper, partial(_late, run, arguments, {**options, "learnt": True})),
    ]


def _late(run: Callable, arguments: tuple, options: dict, setting: Setting) -> Found:
    return run(*arguments, setting, **options)


def nba_model() -> jk.Model:
    """Return the paper's model of basketball."""
    return jk.Model(dynamic(0.003, 0.152, 3.324), Probit())


def atp_model() -> jk.Model:
    """Return the paper's model of tennis, which starts at each player's first match."""
    return jk.Model(Affine(0.366, 0.001) + Wiener(0.147), Probit())


def football_model() -> jk.Model:
    """Return the paper's model of football."""
    return jk.Model(dynamic(0.750, 0.248, 69.985), OrdinalProbit(margin=0.386))


def baselines(name: str, random: ev.Random, paper: Found, rows: dict) -> list[Case]:
    """Return cases of the paper's baselines, and of TrueSkill Through Time."""
    cases = [Case(f"{name} random", paper, partial(_late, predict, (name, random), {}))]
    for label, (values, model) in rows.items():
        cases += twice(f"{name} {label}", values, predict, name, model)
    likelihood = OrdinalProbit(margin=0.4) if random.ties else Probit()
    smoothed = ev.trueskill_through_time(likelihood)
    run = partial(_late, predict, (name, smoothed), {"learnt": True})
    return [*cases, Case(f"{name} trueskill through time, learnt", [None, None], run)]


def predperf() -> list[Case]:
    """Return the cases of table "predperf": time dynamics."""
    nba = {
        "constant": ([0.692, 0.536], ev.constant_scores(variance=0.060)),
        "elo": ([0.634, 0.644], ev.Elo(0.095)),
        "trueskill": ([0.634, 0.644], ev.TrueSkill(0.128, 0.001)),
    }
    tie = OrdinalProbit(margin=0.381)
    football = {
        "constant": ([0.929, 0.558], ev.constant_scores(OrdinalProbit(margin=0.372), 0.933)),
        "elo": ([0.950, 0.551], ev.Elo(0.196, OrdinalLogit(margin=0.578))),
        "trueskill": ([0.937, 0.554], ev.TrueSkill(1.420, 0.001, likelihood=tie)),
    }
    atp = {
        "constant": ([0.581, 0.689], ev.constant_scores(variance=0.817)),
        "elo": ([0.563, 0.705], ev.Elo(0.262)),
        "trueskill": ([0.563, 0.705], ev.TrueSkill(0.137, 0.007)),
    }
    return [
        *baselines("nba", ev.Random(), [0.693, 0.500], nba),
        *twice("nba ours", [0.630, 0.645], predict, "nba", nba_model()),
        *baselines("football", ev.Random(ties=True), [1.099, 0.333], football),
        *twice("football ours", [0.926, 0.558], predict, "football", football_model()),
        *baselines("atp", ev.Random(), [0.693, 0.500], atp),
        *twice("atp ours", [0.552, 0.714], predict, "atp", atp_model()),
    ]


def lklperf() -> list[Case]:
    """Return the cases of table "lklperf": likelihoods."""
    margin = OrdinalLogit(margin=0.646)
    rows = [
        ("nba gaussian", 0.627, (0.059, 17.667, 3.310), Gaussian(143.451)),
        ("nba logit", 0.630, (0.001, 0.417, 3.429), Logit()),
        ("nba poisson", 0.630, (5.470, 0.003, 2.378), Poisson()),
        ("football gaussian", 0.927, (4.062, 2.922, 175.025), Gaussian(3.003)),
        ("football logit", 0.926, (2.001, 0.761, 71.693), margin),
        ("football poisson", 0.922, (0.300, 0.210, 83.610), Poisson()),
    ]
    cases = []
    for name, paper, parameters, likelihood in rows:
        run = predict_counts if isinstance(likelihood, Poisson) else predict
        options = {"points": True} if isinstance(likelihood, Gaussian) else {}
        model = jk.Model(dynamic(*parameters), likelihood)
        cases += twice(name, [paper, None], run, name.split()[0], model, **options)
    return cases


def homeadv() -> list[Case]:
    """Return the cases of table "homeadv"; the paper does not give the advantage's variance."""
    kernels = {"skill": dynamic(0.895, 0.220, 44.472), "advantage": Constant(1.0)}
    model = jk.Model(kernels, OrdinalProbit(margin=0.407))
    return twice("football", [0.900, 0.579], predict, "football", model, home=True)


def intransitivity() -> list[Case]:
    """Return the cases of figure "starcraft": mean and standard deviation over splits."""
    cases = []
    for name, paper in {"wol": 0.515, "hots": 0.478}.items():
        cases += twice(f"{name} ours", [paper, None], starcraft, name, "ours")
        cases += [
            Case(f"{name} {model}", [None, None], partial(starcraft, name, model))
            for model in ("bradley-terry", "naive")
        ]
    return cases


def meanfield() -> list[Case]:
    """Return cases of factorized and exact inference."""
    paper = [0.634, 0.664]
    return [
        *twice("nba 2000-2005 factorised", paper, mean_field, False),
        *twice("nba 2000-2005 exact", paper, mean_field, True),
    ]


def reversekl() -> list[Case]:
    """Return the models of "predperf" with reverse KL; the paper's numbers equal those of EP."""
    rows = [
        ("nba", nba_model(), [0.630, 0.645]),
        ("football", football_model(), [0.926, 0.558]),
        ("atp", atp_model(), [0.552, 0.714]),
    ]
    options = {"method": jk.ReverseKL()}
    return [
        Case(f"{name} ours, reverse KL", paper, partial(_late, predict, (name, model), options))
        for name, model, paper in rows
    ]


def speed() -> list[Case]:
    """Return the cases of figure "scalability"; the paper's 5 seconds use 16 threads."""
    return [
        Case(f"seconds a step, {matches:,} matches", [paper], partial(scalability, matches))
        for matches, paper in {100_000: None, 1_000_000: None, 7_169_202: 5.0}.items()
    ]


TABLES = {
    "predperf": predperf,
    "lklperf": lklperf,
    "homeadv": homeadv,
    "starcraft": intransitivity,
    "meanfield": meanfield,
    "reversekl": reversekl,
    "scalability": speed,
}
"""Functions that make the cases; called late, so that parameters have the configured dtype."""
