"""Rank language models by votes, beside leaderbot: log loss of seen and unseen votes.

In the environment of `rivals.py`, with leaderbot, whose package has the votes of the Chatbot Arena
up to August 2024 (129 models, 3,455 pairs):

    python benchmarks/votes.py                      # fits of a minute each
    python benchmarks/votes.py --systems jaxkick

Votes are wins, losses and ties; "both bad" is left out, as leaderbot does by default. Three
measures, each the mean of -log p over votes:

- *in sample*: all votes, which the models have seen. leaderbot publishes this one;
- *new votes*: a random fifth of the votes, predicted from the others;
- *new pairs*: all votes on a random fifth of the pairs (leaderbot's own split), predicted from the
  votes on the other pairs.

Results are kept in rivals.json. A system that exceeds `--limit` seconds of processor time for all
three measures is reported so.
"""

import argparse
import json
import resource
import signal
import time
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rivals import RESULTS, machine

# Its documentation ("Model selection"): cross-entropy loss of all votes in sample.
PUBLISHED = {
    "leaderbot, Rao-Kupper": 1.0095,
    "leaderbot, Davidson": 1.0100,
    "leaderbot, Davidson with factors": 1.0075,
}


class Votes(NamedTuple):
    """Counts of votes on pairs of models.

    Attributes:
        pairs: numbers of the two models [n, 2].
        counts: wins, losses and ties of the first [n, 3].
        names: the names of the models.
    """

    pairs: np.ndarray
    counts: np.ndarray
    names: list[str]


Predict = Callable[[np.ndarray], np.ndarray]
"""Probabilities [n, 3] of win, loss and tie of pairs [n, 2]."""


def read() -> Votes:
    """Read the votes that leaderbot ships."""
    import leaderbot

    data = leaderbot.data.load()
    return Votes(data["X"], data["Y"], data["models"])


def split_votes(votes: Votes, share: float = 0.2) -> tuple[Votes, Votes]:
    """Hold out a random share of the votes."""
    held = np.random.default_rng(0).binomial(votes.counts, share)
    seen = votes.counts - held
    keep = seen.sum(axis=1) > 0
    return votes._replace(pairs=votes.pairs[keep], counts=seen[keep]), votes._replace(counts=held)


def split_pairs(votes: Votes, share: float = 0.2) -> tuple[Votes, Votes]:
    """Hold out a random share of the pairs, the same as leaderbot's."""
    order = np.random.RandomState(0).permutation(len(votes.pairs))
    cut = int(len(order) * (1.0 - share))
    seen, held = (
        votes._replace(pairs=votes.pairs[rows], counts=votes.counts[rows])
        for rows in (order[:cut], order[cut:])
    )
    return seen, held


def fit_leaderbot(kind: str, **options: Any) -> Callable[[Votes], Predict]:
    """Fit a model of leaderbot by maximum likelihood."""

    def fit(votes: Votes) -> Predict:
        import leaderbot

        data = {"X": votes.pairs, "Y": votes.counts, "models": votes.names}
        model = getattr(leaderbot.models, kind)(data, **options)
        model.train()
        return lambda pairs: np.asarray(model.infer(pairs))

    return fit


def fit_jaxkick(likelihood: str | None = None, **columns: Any) -> Callable[[Votes], Predict]:
    """Fit the suggested model of jaxkick; counts of votes are weights."""

    def fit(votes: Votes) -> Predict:
        import jaxkick as jk

        rows, results = np.nonzero(votes.counts)
        names = np.array(votes.names)
        table = {
            "first": names[votes.pairs[rows, 0]],
            "second": names[votes.pairs[rows, 1]],
            "outcome": np.array([1.0, -1.0, 0.0])[results],
            "votes": votes.counts[rows, results].astype(float),
        }
        sides = {"time": 0.0, "first": "first", "second": "second"}
        data = jk.Dataset.from_frame(table, **sides, outcome="outcome", weight="votes", **columns)
        chosen = likelihood and getattr(jk.likelihoods, likelihood)
        model, _ = jk.learn(jk.suggest_model(data, chosen), data)
        posterior = jk.infer(model, data)

        def predict(pairs: np.ndarray) -> np.ndarray:
            sides = {"first": names[pairs[:, 0]], "second": names[pairs[:, 1]]}
            found = posterior.forecast(pd.DataFrame(sides), allow_unknown=True)
            return found[["p_win", "p_loss", "p_tie"]].to_numpy()

        return predict

    return fit


SYSTEMS = {
    "jaxkick": fit_jaxkick(),
    "jaxkick, logit": fit_jaxkick("OrdinalLogit"),
    "jaxkick, ties by model": fit_jaxkick(tie_effects=True),
    "jaxkick, pairs": fit_jaxkick(pairs=True),
    "leaderbot, Rao-Kupper": fit_leaderbot("RaoKupper", k_cov=None, k_tie=0),
    "leaderbot, Davidson": fit_leaderbot("Davidson", k_cov=None, k_tie=0),
    "leaderbot, Davidson with factors": fit_leaderbot("Davidson", k_cov=0, k_tie=1),
}
"""Functions that fit votes and return a function that predicts pairs."""


def log_loss(predict: Predict, votes: Votes) -> float:
    """The mean of -log p over votes."""
    probabilities = np.maximum(predict(votes.pairs), 1e-9)
    return float(-np.sum(votes.counts * np.log(probabilities)) / votes.counts.sum())


def run(name: str, votes: Votes) -> dict[str, Any]:
    """All three measures of a system, and the time of the fit of all votes."""
    fit, began = SYSTEMS[name], time.process_time()
    found = {"in_sample": log_loss(fit(votes), votes)}
    found["seconds"] = time.process_time() - began
    for measure, split in {"new_votes": split_votes, "new_pairs": split_pairs}.items():
        seen, held = split(votes)
        found[measure] = log_loss(fit(seen), held)
    published = {"published": PUBLISHED[name]} if name in PUBLISHED else {}
    return {**found, **published, "date": date.today().isoformat(), "machine": machine()}


def _stop(*_: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    raise TimeoutError


def main() -> None:
    """Run the systems, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--limit", type=int, default=900, help="processor seconds of a system")
    options = parser.parse_args()
    votes = read()
    print(f"{votes.counts.sum():,} votes on {len(votes.pairs):,} pairs")
    signal.signal(signal.SIGXCPU, _stop)
    for name in options.systems:
        end = int(time.process_time()) + options.limit
        resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
        try:
            found = run(name, votes)
        except TimeoutError:
            failure = f"more than {options.limit} s of processor time"
            found = {"failure": failure, "date": date.today().isoformat(), "machine": machine()}
        print(name, found, flush=True)
        results = json.loads(RESULTS.read_text())
        results.setdefault("votes", {})[name] = found
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
