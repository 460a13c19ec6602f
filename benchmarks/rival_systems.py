"""Rating systems behind one interface, for `rivals.py`.

A system observes matches, oldest first, and predicts matches that it has not seen. `GRID` lists
the values of its parameters to choose from. Matches are tables with the columns `day` (a whole
number), `first`, `second`, `home` (1: the first side is at home, 0: neutral ground), `points` of
the first side (1, 0.5 or 0), and in football `goals1` and `goals2`. Predictions are probabilities
[n, 3] of loss, tie and win of the first side.

Systems without a home advantage get it by their own means where there are any: a further member
of the team at home, or a handicap. Systems without ties get Davidson's formula, whose parameter
`rivals.py` fits to their forecasts of training matches.
"""

import abc
import math
import warnings
from collections import defaultdict
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri
from scipy.stats import skellam

__all__ = ["SYSTEMS", "System"]

_HOME = "(home)"
_YEAR = 365.25


class System(abc.ABC):
    """A rating system.

    Attributes:
        GRID: values of the parameters to choose from.
        ONLINE: whether a match costs the same however many came before.
        TUNED: number of the last training matches that the parameters are chosen on.
        PACKAGE: its name on PyPI.
        GOALS: whether it needs goals.
    """

    GRID: ClassVar[dict[str, tuple]] = {}
    ONLINE: ClassVar[bool] = True
    TUNED: ClassVar[int] = 6_000
    PACKAGE: ClassVar[str | None] = None
    GOALS: ClassVar[bool] = False

    def __init__(self, ties: bool, **parameters: Any):
        self.ties, self.davidson = ties, 0.0
        vars(self).update(parameters)
        self.begin()

    def begin(self) -> None:  # noqa: B027
        """Prepare for the first match."""

    @abc.abstractmethod
    def observe(self, matches: pd.DataFrame) -> None:
        """Learn from matches."""

    @abc.abstractmethod
    def predict(self, matches: pd.DataFrame) -> np.ndarray:
        """Predict matches."""

    def split(self, expected: list[float] | np.ndarray) -> np.ndarray:
        """Turn odds into probabilities of three results by Davidson's formula."""
        expected = np.clip(np.asarray(expected, float), 1e-6, 1 - 1e-6)
        root = np.sqrt(expected / (1.0 - expected))
        weights = np.stack([1.0 / root, np.full_like(root, self.davidson), root], axis=1)
        return weights / weights.sum(axis=1, keepdims=True)


def _rows(matches: pd.DataFrame) -> Any:
    columns = ["day", "first", "second", "home", "points"]
    return zip(*(matches[name].to_numpy() for name in columns), strict=True)


def _normal(mean: np.ndarray, deviation: np.ndarray, margin: float = 0.0) -> np.ndarray:
    """The probabilities of three results of a normal difference with a margin for ties."""
    loss, win = ndtr((-margin - mean) / deviation), ndtr((mean - margin) / deviation)
    return np.stack([loss, np.maximum(1.0 - loss - win, 0.0), win], axis=1)


class Base(System):
    """Shares of losses, ties and wins at home and on neutral ground."""

    def begin(self):
        self.counts = np.ones((2, 3))

    def observe(self, matches):
        places = (matches.home.to_numpy(int), (2 * matches.points).to_numpy(int))
        np.add.at(self.counts, places, 1.0)

    def predict(self, matches):
        shares = self.counts.copy()
        shares[0, [0, 2]] = shares[0, [0, 2]].mean()
        shares[:, 1] *= self.ties
        shares /= shares.sum(axis=1, keepdims=True)
        return shares[matches.home.to_numpy(int)]


class Elo(System):
    """Elo with a home advantage."""

    rate: float
    home: float
    TUNED: ClassVar = 200_000
    GRID: ClassVar = {"rate": (6, 10, 15, 20, 28, 40, 60, 90),
                      "home": (0, 30, 60, 90, 120, 150, 180)}  # fmt: skip

    def begin(self):
        self.ratings = defaultdict(float)

    def expect(self, first, second, home):
        gap = self.ratings[first] - self.ratings[second] + self.home * home
        return 1.0 / (1.0 + 10.0 ** (-gap / 400.0))

    def observe(self, matches):
        for _, first, second, home, points in _rows(matches):
            change = self.rate * (points - self.expect(first, second, home))
            self.ratings[first] += change
            self.ratings[second] -= change

    def predict(self, matches):
        return self.split([self.expect(a, b, home) for _, a, b, home, _ in _rows(matches)])


class Glicko2(System):
    """Glicko-2 with rating periods of 30 days; the home advantage lowers the opponent's rating."""

    deviation: float
    volatility: float
    home: float
    PACKAGE: ClassVar = "glicko2"
    TUNED: ClassVar = 40_000
    GRID: ClassVar = {"deviation": (80, 150, 300, 500), "volatility": (0.03, 0.06, 0.12, 0.24),
                      "home": (0, 50, 100, 150)}  # fmt: skip

    def begin(self):
        from glicko2 import Player

        self.players = defaultdict(lambda: Player(1500, self.deviation, self.volatility))
        self.seen = {}

    def observe(self, matches):
        for period, part in matches.groupby(matches.day // 30, sort=True):
            before = {}
            for name in pd.unique(part[["first", "second"]].to_numpy().ravel()):
                player = self.players[name]
                for _ in range(int(period - self.seen.get(name, period)) - 1):
                    player.did_not_compete()
                self.seen[name] = period
                before[name] = (player.rating, player.rd)
            games = defaultdict(lambda: ([], [], []))
            for _, first, second, home, points in _rows(part):
                for one, two, sign, score in (
                    (first, second, -1, points), (second, first, 1, 1.0 - points),
                ):  # fmt: skip
                    rating, deviation = before[two]
                    for place, value in enumerate(
                        (rating + sign * self.home * home, deviation, score)
                    ):
                        games[one][place].append(value)
            for name, lists in games.items():
                self.players[name].update_player(*lists)

    def predict(self, matches):
        expected = []
        for _, first, second, home, _ in _rows(matches):
            one, two = self.players[first], self.players[second]
            scale = math.log(10) / 400
            spread = math.sqrt(1 + 3 * scale**2 * (one.rd**2 + two.rd**2) / math.pi**2)
            gap = (one.rating - two.rating + self.home * home) * scale / spread
            expected.append(1.0 / (1.0 + math.exp(-gap)))
        return self.split(expected)


class TrueSkill(System):
    """TrueSkill; the home advantage is a further member of the team at home."""

    sigma: float
    tau: float
    PACKAGE: ClassVar = "trueskill"
    GRID: ClassVar = {"sigma": (0.15, 0.3, 0.8, 2.0, 4.0), "tau": (0.005, 0.02, 0.06, 0.15)}

    def begin(self):
        import trueskill

        self.ratings = {}
        self.rules = trueskill.TrueSkill(
            0.0, self.sigma, 1.0, self.tau, 0.25 if self.ties else 0.0, backend=None
        )
        # The default share of ties is replaced by that of the first matches.
        self.counts = [0, 0]

    def team(self, name, home):
        new = self.rules.create_rating
        return {each: self.ratings.get(each) or new() for each in [name, _HOME][: 1 + int(home)]}

    def observe(self, matches):
        if self.ties:
            self.counts[0] += int(np.sum(matches.points == 0.5))
            self.counts[1] += len(matches)
            self.rules.draw_probability = min(max(self.counts[0] / self.counts[1], 0.01), 0.9)
        for _, first, second, home, points in _rows(matches):
            teams = [self.team(first, home), self.team(second, 0)]
            for team in self.rules.rate(teams, ranks=[1 - points, points]):
                self.ratings.update(team)

    def predict(self, matches):
        from trueskill import calc_draw_margin

        means, variances, margins = [], [], []
        for _, first, second, home, _ in _rows(matches):
            one, two = self.team(first, home), self.team(second, 0)
            every = [*one.values(), *two.values()]
            means.append(sum(r.mu for r in one.values()) - sum(r.mu for r in two.values()))
            variances.append(len(every) + sum(rating.sigma**2 for rating in every))
            share = self.rules.draw_probability
            margins.append(calc_draw_margin(share, len(every), self.rules) if self.ties else 0.0)
        return _normal(np.array(means), np.sqrt(variances), np.array(margins))


class OpenSkill(System):
    """openskill; the home advantage is a further member of the team at home."""

    model: str
    sigma: float
    tau: float
    PACKAGE: ClassVar = "openskill"
    TUNED: ClassVar = 40_000
    # `predict_win` has a normal link. Plackett and Luce's updates are those of a logistic one.
    GRID: ClassVar = {"model": ("PlackettLuce", "ThurstoneMostellerFull"),
                      "sigma": (0.2, 0.5, 1.2, 3.0), "tau": (0.001, 0.005, 0.02, 0.06)}  # fmt: skip

    def begin(self):
        import openskill.models

        rules = getattr(openskill.models, self.model)
        self.ratings, self.rules = {}, rules(mu=0.0, sigma=self.sigma, beta=1.0, tau=self.tau)

    def team(self, name, home):
        names = [name, _HOME][: 1 + int(home)]
        for each in names:
            if each not in self.ratings:
                self.ratings[each] = self.rules.rating(name=each)
        return [self.ratings[each] for each in names]

    def observe(self, matches):
        for _, first, second, home, points in _rows(matches):
            teams = [self.team(first, home), self.team(second, 0)]
            for team in self.rules.rate(teams, ranks=[1 - points, points]):
                self.ratings.update((rating.name, rating) for rating in team)

    def predict(self, matches):
        expected = [
            self.rules.predict_win([self.team(first, home), self.team(second, 0)])[0]
            for _, first, second, home, _ in _rows(matches)
        ]
        return self.split(expected)


class _Batch(System):
    """A system that fits all matches at once."""

    ONLINE: ClassVar = False
    TUNED: ClassVar = 4_000

    def begin(self):
        self.past, self.fitted = [], None

    def observe(self, matches):
        self.past.append(matches)
        self.fitted = None

    def predict(self, matches):
        if self.fitted is None:
            self.fitted = self.fit(pd.concat(self.past, ignore_index=True))
        return self.answer(self.fitted, matches)

    @abc.abstractmethod
    def fit(self, matches: pd.DataFrame) -> Any:
        """Fit all matches."""

    @abc.abstractmethod
    def answer(self, fitted: Any, matches: pd.DataFrame) -> np.ndarray:
        """Predict matches by the fit."""


class TrueSkillThroughTime(_Batch):
    """TrueSkill Through Time, four passes; home is a further member of the team."""

    sigma: float
    gamma: float
    PACKAGE: ClassVar = "trueskillthroughtime"
    GRID: ClassVar = {"sigma": (0.4, 1.0, 2.5), "gamma": (0.005, 0.02, 0.05)}

    def fit(self, matches):
        from trueskillthroughtime import History

        share = float(np.mean(matches.points == 0.5))
        teams, results = [], []
        for _, first, second, home, points in _rows(matches):
            teams.append([[first, _HOME][: 1 + int(home)], [second]])
            results.append([float(points), float(1 - points)])
        history = History(
            teams, results, matches.day.tolist(), sigma=self.sigma, beta=1.0, gamma=self.gamma,
            p_draw=share,
        )  # fmt: skip
        history.convergence(epsilon=0.01, iterations=4, verbose=False)
        return share, {name: curve[-1] for name, curve in history.learning_curves().items()}

    def answer(self, fitted, matches):
        share, last = fitted
        means, variances, members = [], [], []
        for day, first, second, home, _ in _rows(matches):
            mean, variance = 0.0, 0.0
            every = [(first, 1), (second, -1), (_HOME, 1)][: 2 + int(home)]
            for name, sign in every:
                if name in last:
                    then, skill = last[name]
                    mean += sign * skill.mu
                    variance += skill.sigma**2 + self.gamma**2 * max(day - then, 0)
                else:
                    variance += self.sigma**2
            means.append(mean)
            variances.append(variance + len(every))
            members.append(len(every))
        # Its own margin: that of ties between sides of equal skill.
        margin = np.sqrt(members) * ndtri((share + 1.0) / 2.0) if share else 0.0
        return _normal(np.array(means), np.sqrt(variances), margin)


class Kickscore(_Batch):
    """kickscore: a constant plus an exponential kernel by EP; home is a feature."""

    variance: float
    lengthscale: float
    PACKAGE: ClassVar = "kickscore"
    GRID: ClassVar = {"variance": (0.1, 0.4, 1.2), "lengthscale": (1.0, 4.0)}

    def fit(self, matches):
        import kickscore as ks

        share = float(np.mean(matches.points == 0.5))
        # The margin that gives sides of typical strength the observed share of ties.
        self.margin = float(ndtri((share + 1.0) / 2.0)) * math.sqrt(1.0 + 2.0 * self.variance)
        model = ks.TernaryModel(margin=self.margin) if share else ks.BinaryModel()
        kernels = ks.kernel
        for name in pd.unique(matches[["first", "second"]].to_numpy().ravel()):
            level = kernels.Constant(0.3 * self.variance)
            moving = kernels.Exponential(0.7 * self.variance, self.lengthscale)
            model.add_item(name, kernel=level + moving)
        model.add_item(_HOME, kernel=kernels.Constant(0.3))
        for day, first, second, home, points in _rows(matches):
            one, two = [first, _HOME][: 1 + int(home)], [second]
            if points == 0.5:
                model.observe(winners=one, losers=two, t=day / _YEAR, tie=True)
            elif points == 1:
                model.observe(winners=one, losers=two, t=day / _YEAR)
            else:
                model.observe(winners=two, losers=one, t=day / _YEAR)
        model.fit(max_iter=30)
        return model

    def answer(self, fitted, matches):
        means, variances = np.zeros(len(matches)), np.ones(len(matches))
        days = matches.day.to_numpy() / _YEAR
        for names, sign in ((matches["first"], 1.0), (matches["second"], -1.0)):
            for name, rows in matches.groupby(names).indices.items():
                if name in fitted.item:
                    mean, variance = fitted.item[name].predict(days[rows])
                else:
                    mean, variance = 0.0, self.variance
                means[rows] += sign * mean
                variances[rows] += variance
        mean, variance = fitted.item[_HOME].predict(days[:1])
        home = matches.home.to_numpy()
        margin = self.margin if self.ties else 0.0
        return _normal(means + home * mean, np.sqrt(variances + home * variance), margin)


class WholeHistoryRating(_Batch):
    """whole-history-rating, with the home advantage as its handicap."""

    w2: float
    PACKAGE: ClassVar = "whole-history-rating"
    GRID: ClassVar = {"w2": (1.0, 5.0, 30.0, 100.0)}

    def fit(self, matches):
        from whr import WHR

        warnings.simplefilter("ignore")
        model = WHR({"w2": self.w2})
        letters = {1.0: "B", 0.5: "D", 0.0: "W"}
        for day, first, second, home, points in _rows(matches):
            model.create_game(first, second, letters[float(points)], int(day), int(home))
        model.auto_iterate()
        return model

    def answer(self, fitted, matches):
        found = [
            fitted.win_draw_loss_probabilities(
                first, second, handicap_key=int(home), account_for_uncertainty=True
            )[::-1]
            for _, first, second, home, _ in _rows(matches)
        ]
        return np.array(found)


class DixonColes(_Batch):
    """penaltyblog's Dixon–Coles model of goals, with weights that decay with age."""

    decay: float
    PACKAGE: ClassVar = "penaltyblog"
    GRID: ClassVar = {"decay": (0.0005, 0.001, 0.002)}
    GOALS: ClassVar = True

    def fit(self, matches):
        import penaltyblog as pb

        matches = matches[matches.day > matches.day.max() - 4000]
        # Teams with few matches have no estimate of their own.
        counts = pd.concat([matches["first"], matches["second"]]).value_counts()
        self.known = set(counts.index[counts >= 10])
        kept = matches[matches["first"].isin(self.known) & matches["second"].isin(self.known)]
        model = pb.models.DixonColesGoalModel(
            kept.goals1.to_numpy(int), kept.goals2.to_numpy(int),
            kept["first"].to_numpy(str), kept["second"].to_numpy(str),
            weights=np.exp(-self.decay * (kept.day.max() - kept.day.to_numpy(float))),
            neutral_venue=1 - kept.home.to_numpy(int),
        )  # fmt: skip
        model.fit()
        self.base = Base(self.ties)
        self.base.observe(matches)
        return model

    def answer(self, fitted, matches):
        found = self.base.predict(matches)
        for row, (_, first, second, home, _) in enumerate(_rows(matches)):
            if first not in self.known or second not in self.known:
                continue
            try:
                grid = fitted.predict(first, second, neutral_venue=not home)
                found[row] = np.array(grid.home_draw_away)[::-1]
            except ValueError:
                # The correction of low scores made a probability negative. Do without it.
                value = fitted.params
                gaps = [
                    value[f"attack_{one}"]
                    + value[f"defence_{two}"]
                    + at_home * value["home_advantage"]
                    for one, two, at_home in ((first, second, home), (second, first, 0))
                ]
                below, level = skellam.cdf(-1, *np.exp(gaps)), skellam.pmf(0, *np.exp(gaps))
                found[row] = below, level, 1.0 - below - level
        return np.clip(found, 1e-6, None)


class PiRatings(System):
    """penaltyblog's pi ratings of goal differences, for sports with ties."""

    alpha: float
    beta: float
    sigma: float
    PACKAGE: ClassVar = "penaltyblog"
    GRID: ClassVar = {
        "alpha": (0.05, 0.15, 0.3),
        "beta": (0.03, 0.1, 0.2),
        "sigma": (1.2, 1.6, 2.0),
    }
    GOALS: ClassVar = True

    def begin(self):
        import penaltyblog as pb

        self.rules = pb.ratings.PiRatingSystem(self.alpha, self.beta, 0.75, self.sigma)

    def observe(self, matches):
        columns = ("first", "second", "goals1", "goals2")
        for first, second, one, two in zip(*(matches[name] for name in columns), strict=True):
            self.rules.update_ratings(first, second, int(one - two))

    def predict(self, matches):
        rows = [
            self.rules.calculate_match_probabilities(first, second)
            for _, first, second, _, _ in _rows(matches)
        ]
        found = np.array([[row["away_win"], row["draw"], row["home_win"]] for row in rows])
        return np.clip(found, 1e-6, None)


class Choix(_Batch):
    """choix: a Bradley–Terry model by maximum likelihood with a penalty; nothing moves."""

    penalty: float
    PACKAGE: ClassVar = "choix"
    # The best penalty depends on the number of matches.
    TUNED: ClassVar = 200_000
    GRID: ClassVar = {"penalty": (0.01, 0.1, 0.5, 2.0, 8.0)}

    def fit(self, matches):
        import choix

        names = pd.unique(matches[["first", "second"]].to_numpy().ravel())
        number = {name: place for place, name in enumerate(names)}
        pairs = [
            (number[first], number[second])[:: 1 if points == 1 else -1]
            for _, first, second, _, points in _rows(matches)
            if points != 0.5
        ]
        return number, choix.opt_pairwise(len(names), pairs, alpha=self.penalty)

    def answer(self, fitted, matches):
        number, scores = fitted
        gap = [
            sum(sign * scores[number[name]] for name, sign in ((a, 1), (b, -1)) if name in number)
            for _, a, b, _, _ in _rows(matches)
        ]
        return self.split(1.0 / (1.0 + np.exp(-np.array(gap))))


class Jaxkick(System):
    """jaxkick out of the box: the suggested model, learnt from the training part."""

    COLUMNS: ClassVar[dict[str, Any]] = {"result": ("points", "others")}

    def begin(self):
        self.posterior = None

    def table(self, matches):
        """The columns that the data set is read from."""
        return matches.assign(year=matches.day / _YEAR, others=1.0 - matches.points)

    def suggest(self, data):
        """The model to learn."""
        import jaxkick as jk

        return jk.suggest_model(data)

    def observe(self, matches):
        import jaxkick as jk

        table = self.table(matches)
        if self.posterior is not None:
            self.posterior = self.posterior.update(table, allow_repeats=True)
            return
        home = {"home": "home"} if matches.home.any() else {}
        columns = {"time": "year", "first": "first", "second": "second", **home, **self.COLUMNS}
        data = jk.Dataset.from_frame(table, **columns)
        model, _ = jk.learn(self.suggest(data), data)
        self.posterior = jk.infer(model, data)

    def predict(self, matches):
        found = self.posterior.forecast(self.table(matches), allow_unknown=True)
        # Without ties there is no such column.
        none = pd.Series(0.0, found.index)
        return np.stack([found.p_loss, found.get("p_tie", none), found.p_win], axis=1)


class JaxkickGoals(Jaxkick):
    """jaxkick on differences: normal, or with ties in levels of up to four goals."""

    COLUMNS: ClassVar = {"outcome": "margin"}
    GOALS: ClassVar = True

    def table(self, matches):
        margin = (matches.goals1 - matches.goals2).clip(*((-4, 4) if self.ties else (None, None)))
        return super().table(matches).assign(margin=margin.astype(float))

    def suggest(self, data):
        import jaxkick as jk

        levels = jk.likelihoods.OrdinalProbit(margin=[0.25, 0.5, 0.5, 0.5])
        return jk.suggest_model(data, levels if self.ties else jk.likelihoods.Gaussian)


class JaxkickPairs(Jaxkick):
    """jaxkick with a further skill of each pair of competitors."""

    COLUMNS: ClassVar = {**Jaxkick.COLUMNS, "pairs": True}


SYSTEMS: dict[str, type[System]] = {
    "jaxkick": Jaxkick,
    "jaxkick, goals": JaxkickGoals,
    "jaxkick, pairs": JaxkickPairs,
    "kickscore": Kickscore,
    "TrueSkill Through Time": TrueSkillThroughTime,
    "whole-history-rating": WholeHistoryRating,
    "Glicko-2": Glicko2,
    "openskill": OpenSkill,
    "TrueSkill": TrueSkill,
    "Elo": Elo,
    "Dixon–Coles": DixonColes,
    "pi ratings": PiRatings,
    "choix": Choix,
    "shares of results": Base,
}
"""All systems by name."""
