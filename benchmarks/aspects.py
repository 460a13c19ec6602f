"""Compare models with several skills of one competitor with models of one skill.

    python benchmarks/aspects.py tennis
    python benchmarks/aspects.py football
    python benchmarks/aspects.py goals --every year --max-steps 12
    python benchmarks/aspects.py bundesliga --max-steps 60
    python benchmarks/aspects.py chess --max-steps 12
    python benchmarks/aspects.py cost        # the time of fits, on a quiet machine

tennis: skills on hard court, clay and grass, on matches of the ATP tour. football: a home advantage
of each national team's own. goals and bundesliga: attack and defence in one state, with a learnt
correlation, of national teams and of the Bundesliga. chess: a White advantage of each player's own,
on FIDE games.

Parameters are learnt from the matches before a start; later blocks are predicted one after the
other from all earlier matches. Prints the log evidence of the matches before the start, and the
mean log loss of the later ones with the difference to the first model and its 95 % bootstrap
interval. The cost is that of three aspects against a sum of kernels of the same state dimension.
Reads `--data`, by default the folder in JAXKICK_DATA or ../shared/data. Needs pandas (the
`dev` extra).
"""

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
from paper_data import FOLDER

import jaxkick as jk
from jaxkick import evaluation as ev
from jaxkick.kernels import Aspects, Constant, CorrelatedAspects, Matern12
from jaxkick.likelihoods import OrdinalProbit, Poisson, Probit

SURFACES = ["Hard", "Clay", "Grass"]

Candidates = dict[str, tuple[dict[str, Any], jk.Model]]
"""Arguments of `Dataset.from_frame` and a model to learn from, by name."""


def tennis(games: pd.DataFrame) -> tuple[pd.DataFrame, Candidates]:
    """Matches of the tour, and models of skills by surface."""
    games = games[games.level == "tour"]
    games = games.assign(surface=games.surface.replace("Carpet", "Hard").fillna("Hard"))
    read = {"time": "date", "first": "winner_id", "second": "loser_id"}
    aspects = {**read, "aspects": {"surface": "surface"}}
    own = {name: Constant(0.1) for name in SURFACES}
    skill = lambda: Constant(0.5) + Matern12(0.5, 3.0)  # noqa: E731
    together = Matern12(0.5, 3.0) + CorrelatedAspects(Constant(0.5), SURFACES, 0.7)
    return games, {
        "one skill": (read, jk.Model(skill(), Probit())),
        "surfaces as features": (
            {**read, "interactions": "surface"},
            jk.Model({"skill": skill(), "surface": Constant(0.1)}, Probit()),
        ),
        "surfaces as aspects": (aspects, jk.Model(skill() + Aspects(**own), Probit())),
        "correlated surfaces": (aspects, jk.Model(together, Probit())),
    }


def football(games: pd.DataFrame) -> tuple[pd.DataFrame, Candidates]:
    """International matches, and models of home advantages."""
    read = {
        "time": "date",
        "first": "home_team",
        "second": "away_team",
        "result": ("home_score", "away_score"),
        "neutral": "neutral",
    }
    skill, home = Constant(0.5) + Matern12(0.3, 5.0), Constant(0.1)
    own = skill + Aspects(home=Constant(0.02))
    likelihood = OrdinalProbit(0.4)
    return games, {
        "one home advantage": (read, jk.Model({"skill": skill, "home": home}, likelihood)),
        "own home advantages": (
            {**read, "aspects": {"home": True}},
            jk.Model({"skill": own, "home": home}, likelihood),
        ),
    }


def goals(games: pd.DataFrame) -> tuple[pd.DataFrame, Candidates]:
    """International matches, and models of attack and defence."""
    read = {
        "time": "date",
        "first": "home_team",
        "second": "away_team",
        "counts": ("home_score", "away_score"),
        "neutral": "neutral",
    }
    return games, _attack_and_defence(read)


def bundesliga(games: pd.DataFrame) -> tuple[pd.DataFrame, Candidates]:
    """Matches of the Bundesliga, and models of attack and defence."""
    read = {
        "time": "date",
        "first": "home",
        "second": "away",
        "counts": ("home_goals", "away_goals"),
        "home": True,
    }
    return games, _attack_and_defence(read)


def _attack_and_defence(read: dict[str, Any]) -> Candidates:
    part = lambda: Constant(0.1) + Matern12(0.1, 5.0)  # noqa: E731
    others = {"home": Constant(0.1), "level": Constant(0.1)}
    both = CorrelatedAspects(part(), ["attack", "defence"], 0.5, [1.0, 1.0])
    return {
        "attack and defence apart": (
            read,
            jk.Model({"attack": part(), "defence": part(), **others}, Poisson()),
        ),
        "in one state": (
            {**read, "aspects": True},
            jk.Model({"skill": both, **others}, Poisson()),
        ),
        "own home advantages": (
            {**read, "aspects": {"home": True}},
            jk.Model({"skill": both + Aspects(home=Constant(0.01)), **others}, Poisson()),
        ),
    }


def chess(games: pd.DataFrame) -> tuple[pd.DataFrame, Candidates]:
    """Games of chess, and models of the advantage of White."""
    read = {
        "time": "month",
        "first": "white",
        "second": "black",
        "outcome": "white_points",
        "outcomes": {1: 1, 0.5: 0, 0: -1},
        "home": True,
    }
    skill, white = Constant(0.5) + Matern12(0.1, 24.0), Constant(0.1)
    own = skill + Aspects(white=Constant(0.02))
    likelihood = OrdinalProbit(0.5)
    return games, {
        "one advantage": (read, jk.Model({"skill": skill, "home": white}, likelihood)),
        "own advantages": (
            {**read, "aspects": {"white": (1, 0)}},
            jk.Model({"skill": own, "home": white}, likelihood),
        ),
    }


PARTS = {
    "tennis": (tennis, "tennis_atp_matches.csv.gz", "2006-01-01", "2011-01-01", "2012-01-01"),
    "football": (
        football,
        "football_international.csv.gz",
        "2006-01-01",
        "2018-01-01",
        "2024-01-01",
    ),
    "goals": (goals, "football_international.csv.gz", "2016-01-01", "2021-01-01", "2024-01-01"),
    "bundesliga": (bundesliga, None, "1989-07-01", "1999-07-01", "2009-07-01"),
    "chess": (chess, "chess_fide.csv.gz", 79, 85, 87),
}
"""For each part the candidates, the file, the first matches, those to predict and the end."""


def compare(part: str, folder: Path, every: str, max_steps: int) -> None:
    """Print evidences and log losses of all candidates of one part."""
    make, file, since, start, stop = PARTS[part]
    if file is None:
        games = pd.DataFrame(jk.datasets.load_bundesliga())
    else:
        games = pd.read_csv(folder / file).dropna(how="all", axis=1)
    column = "month" if part == "chess" else "date"
    if file is None:
        games["date"] = games.date.astype(str)
    games = games[(games[column] >= since) & (games[column] < stop)]
    games, candidates = make(games.dropna() if part in ("football", "goals") else games)
    print(f"{part}: {len(games):,} matches from {since}, predicted from {start} to {stop}")
    first = None
    for name, (read, model) in candidates.items():
        begin = time.perf_counter()
        data = jk.Dataset.from_frame(games, **read)
        refit = ev.Refit(model, learn_options={"max_steps": max_steps})
        period = (lambda months: np.floor(months)) if part == "chess" else every
        found = ev.walk_forward(refit, data, start, every=period, relearn="start")
        index = data.index
        past = index.times < float(index.to_time(start))
        evidence = float(jk.log_marginal_likelihood(found.model, data, mask=past))
        print(f"\n{name}, in {time.perf_counter() - begin:.0f} s")
        print(found.model.describe(data.index.unit))
        losses = found.log_losses
        first = (losses, evidence) if first is None else first
        print(f"log evidence {evidence:.1f} ({evidence - first[1]:+.1f})")
        difference = ev.bootstrap_mean(losses - first[0], found.blocks)
        shown = "" if losses is first[0] else f"  {difference}"
        print(f"log loss {losses.mean():.5f}{shown}, {len(losses):,} matches", flush=True)
        print(f"learning {'stopped early' if found.unconverged_learning else 'converged'}")


def measure_cost() -> None:
    """Compare the time of fits with three aspects and with a sum of kernels, by turns."""
    random = np.random.default_rng(0)
    count, players = 20_000, 500
    first = random.integers(players, size=count)
    second = (first + random.integers(1, players, size=count)) % players
    games = {
        "date": np.sort(random.uniform(0, 10, count)),
        "first": first,
        "second": second,
        "surface": np.array(SURFACES)[random.integers(3, size=count)],
    }
    read = {"time": "date", "first": "first", "second": "second"}
    own = {name: Constant(0.1) for name in SURFACES}
    smooth = lambda: Constant(0.1) + Constant(0.1) + Constant(0.1)  # noqa: E731
    cases = {
        "plain": (read, Matern12(0.5, 3.0) + smooth()),
        "aspects": (
            {**read, "aspects": {"surface": "surface"}},
            Matern12(0.5, 3.0) + Aspects(**own),
        ),
    }
    fits = {}
    for name, (columns, kernel) in cases.items():
        data, model = jk.Dataset.from_frame(games, **columns), jk.Model(kernel, Probit())
        fits[name] = lambda data=data, model=model: jax.block_until_ready(jk.infer(model, data))
        print(f"{name}: state dimension {kernel.state_dim}, {int(fits[name]().steps)} steps")
    taken: dict[str, list[float]] = {name: [] for name in fits}
    for _ in range(7):
        for name, fit in fits.items():
            begin = time.perf_counter()
            fit()
            taken[name].append(time.perf_counter() - begin)
    best = {name: min(times) for name, times in taken.items()}
    print(f"best of 7: {best}, ratio {best['aspects'] / best['plain']:.2f}")


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=[*PARTS, "cost"])
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--every", default="month")
    parser.add_argument("--max-steps", type=int, default=30)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if arguments.part == "cost":
        measure_cost()
    else:
        compare(arguments.part, arguments.data, arguments.every, arguments.max_steps)


if __name__ == "__main__":
    main()
