"""`python -m jaxkick`: fits the embedded football data and prints what it learnt."""

import sys
import time

import numpy as np

import jaxkick as jk
from jaxkick.datasets import load_bundesliga


def main() -> None:
    """Rate the teams of the Bundesliga at its last match, and forecast a pairing."""
    start = time.perf_counter()
    matches = load_bundesliga()
    data = jk.Dataset.from_frame(
        matches,
        time="date",
        first="home",
        second="away",
        outcome="result",
        covariates={"home advantage": 1.0},
        groups={"home advantage": "advantage"},
    )
    model = jk.Model(
        kernel={
            "default": jk.kernels.Constant(0.06) + jk.kernels.Matern12(0.08, lengthscale=4.0),
            "advantage": jk.kernels.Constant(0.3) + jk.kernels.Matern32(0.03, lengthscale=20.0),
        },
        likelihood=jk.likelihoods.OrdinalProbit(margin=0.35),
    )
    posterior = jk.infer(model, data)
    seconds = time.perf_counter() - start
    write = sys.stdout.write
    write(f"{data!r}\n\n{model.kernel_of('default')!r} for teams\n{posterior!r}\n")
    write(f"fitted in {seconds:.1f} s, compilation included\n\n")
    last = matches["date"][-1]
    playing = np.unique(matches["home"][matches["date"] > last - np.timedelta64(300, "D")])
    scores = posterior.combination(list(playing), last)
    order = np.argsort(-np.asarray(scores.mean))
    write(f"the league on {last}:\n")
    for rank, place in enumerate(order, start=1):
        mean, deviation = scores.mean[place], np.sqrt(scores.variance[place])
        write(f"{rank:3d}  {playing[place]:24s} {mean:+.2f} ± {deviation:.2f}\n")
    first, second = playing[order[0]], playing[order[1]]
    forecast = posterior.predict(first, second, last, covariates={"home advantage": 1.0})
    loss, tie, win = np.asarray(forecast.result)
    write(f"\n{first} at home against {second}: win {win:.0%}, tie {tie:.0%}, loss {loss:.0%}\n")


if __name__ == "__main__":
    main()
