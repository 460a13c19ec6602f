"""Fit a model, and write the results of `fit` and `demo` to a folder."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import combinations, permutations
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import typer

from jaxkick import Dataset, Model, Posterior, discover, infer, learn, plotting, save
from jaxkick.cli import console
from jaxkick.cli.console import UsageError
from jaxkick.cli.inputs import MODEL_FILE, forecast_pairs, parse_scale
from jaxkick.cli.output import write_csv
from jaxkick.data.schema import ATTACK, HOME, Feature
from jaxkick.inference.methods import ExpectationPropagation
from jaxkick.inference.problem import ScoreMoments, no_sites
from jaxkick.inference.status import Status
from jaxkick.io import atomic_write
from jaxkick.posterior.joint import is_affordable
from jaxkick.posterior.leaderboard import points_of
from jaxkick.simulation import LeagueTable, Simulated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Without fixtures, all matches among this many competitors are forecast.
PAIRED = 4


def fit_model(
    data: Dataset, start: Model, folder: Path, max_steps: int = 100
) -> tuple[Posterior, bool]:
    """Learn the parameters of a model, fit it, save the fit and print its diagnostics.

    Returns:
        The posterior, and whether learning converged.
    """
    with console.stage("learning") as tell, _compiling_ranking(start, data):
        model, history = learn(
            start,
            data,
            max_steps=max_steps,
            progress=lambda step, value: tell(f"step {step}, log marginal likelihood {value:.2f}"),
        )
    with console.stage("rating"):
        posterior = infer(model, data)
    # Saved before anything else can fail.
    save(folder / MODEL_FILE, posterior)
    for diagnostic in posterior.check():
        console.note(str(diagnostic))
    note_if_stopped(history.converged, max_steps)
    return posterior, history.converged


def search_model(data: Dataset, budget: float, folder: Path) -> tuple[Model, list[Path]]:
    """Search for a model, print its description, and write the candidates.

    Returns:
        The best model, and the files.
    """
    with console.stage("searching") as tell:
        found = discover(data, budget=budget, progress=tell)
    typer.echo(found.describe(), err=True)
    return found.model, [write_csv(folder / "models.csv", found.table.columns())]


def note_if_stopped(converged: bool, max_steps: int) -> None:
    """Print a note if learning stopped before it converged."""
    if not converged:
        console.note(f"learning has not converged after {max_steps} steps. Raise --max-steps.")


@contextmanager
def _compiling_ranking(model: Model, data: Dataset) -> Iterator[None]:
    """Compile the ranking of competitors on a second core, while learning compiles its programs."""
    dtype = data.outcome.dtype

    def compile_ranking() -> None:
        # The setting is local to a thread.
        with jax.enable_x64(dtype == np.float64):
            posterior = _without_information(model, data)
            joint = is_affordable(data, data.num_features)
            board = posterior.leaderboard(scale=parse_scale(None, model.duel), joint=joint)
            pair_up(posterior, board["name"][:PAIRED].tolist(), board["last_active"].max())

    with ThreadPoolExecutor(1) as pool:
        # Errors are ignored: the same calls after learning raise them again.
        pool.submit(compile_ranking)
        yield


def _without_information(model: Model, data: Dataset) -> Posterior:
    """Make a posterior without information, with the shapes of a fitted one."""
    zero = np.zeros((), data.outcome.dtype)
    sites = no_sites(data.chains)
    observations = ScoreMoments(*[jax.device_put(np.full(len(data), zero))] * 2)
    entries = tuple(ScoreMoments(*site) for site in sites)
    rest = jax.tree.map(jax.device_put, (zero, np.int32(0), zero, np.int32(Status.CONVERGED)))
    return Posterior(model, data, ExpectationPropagation(), sites, entries, observations, *rest)


def best_peaks(posterior: Posterior) -> dict[str, Any]:
    """Rank competitors by the highest mean score of their careers, as ratings of Elo.

    Returns:
        Columns rank, name, rating, lower, upper (90 % intervals), peak (its time) and matches.
    """
    # Joint intervals would take a second and are not needed here.
    board = posterior.leaderboard(scale="elo", joint=False)
    peaks = []
    for name, matches in zip(board["name"], board["matches"], strict=True):
        scores = posterior.scores(name, joint=False)
        # In NumPy: JAX would compile a slice for every number of matches.
        mean = np.asarray(scores.mean)
        best = int(np.argmax(mean))
        peaks.append((float(mean[best]), str(name), scores.times[best], int(matches)))
    peaks.sort(key=lambda peak: -peak[0])
    means, names, times, matches = map(np.array, zip(*peaks, strict=True))
    variances = np.diagonal(posterior.covariance(names.tolist(), times))
    points = points_of("elo", posterior.model.duel)
    rating = points.centre + points.factor * means
    reach = NormalDist().inv_cdf(0.95) * points.factor * np.sqrt(variances)
    return {
        "rank": np.arange(1, len(peaks) + 1),
        "name": names,
        "rating": rating,
        "lower": rating - reach,
        "upper": rating + reach,
        "peak": times,
        "matches": matches,
    }


def pair_up(posterior: Posterior, names: Sequence[Hashable], time: Any) -> dict[str, np.ndarray]:
    """Forecast all matches among some competitors, at both homes if there is a home advantage."""
    at_home = HOME in posterior.data.names
    pairs = list(permutations(names, 2) if at_home else combinations(names, 2))
    return forecast_pairs(posterior, pairs, time, int(at_home)) if pairs else {}


def make_folder(path: Path) -> Path:
    """Make the folder unless it exists."""
    if (path.exists() and not path.is_dir()) or path.suffix == Path(MODEL_FILE).suffix:
        raise UsageError(f"--output is {str(path)!r}, which is a file. Give a folder.")
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_products(
    folder: Path,
    posterior: Posterior,
    tables: Mapping[str, Mapping[str, Any]],
    curves: Sequence[Hashable],
    title: str,
) -> list[Path]:
    """Write tables by file name, a plot of the scores of some competitors, and the report."""
    written = [write_csv(folder / f"{name}.csv", table) for name, table in tables.items()]
    forecasts = tables["forecasts"].items()
    chances = {name: column for name, column in forecasts if not name.startswith("score_")}
    with _noting_failure("plot", Exception):
        written.append(_plot(folder / "scores.png", posterior, curves))
    with _noting_failure("report", ImportError):
        from jaxkick.report import write_report

        path = folder / "report.html"
        written.append(write_report(path, posterior, title=title, forecasts=chances))
    return written


def write_season(folder: Path, season: LeagueTable, matches: Simulated) -> list[Path]:
    """Write the final table with all places, the matches, and a plot of places."""
    written = [
        write_csv(folder / "season.csv", season.columns(places=True)),
        write_csv(folder / "matches.csv", matches.columns()),
    ]
    with _noting_failure("plot", Exception):
        from matplotlib.figure import Figure

        size = len(season.names)
        figure = Figure(figsize=(2.4 + 0.4 * size, 1.1 + 0.34 * size), dpi=150)
        figure.set_layout_engine("constrained")
        plotting.final_places(season, ax=figure.subplots())
        written.append(_save(figure, folder / "places.png"))
    return written


def _save(figure: "Figure", path: Path) -> Path:
    with atomic_write(path) as file:
        figure.savefig(file, format="png")
    return path


def _plot(path: Path, posterior: Posterior, names: Sequence[Hashable]) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 5.5), dpi=150, layout="constrained")
    features = [name if name in posterior.data.names else Feature(name, ATTACK) for name in names]
    scale = parse_scale(None, posterior.model.duel)
    plotting.scores(posterior, features, scale=scale, ax=figure.subplots())
    return _save(figure, path)


@contextmanager
def _noting_failure(what: str, kind: type[Exception]) -> Iterator[None]:
    """Print a note if a file cannot be written; name the extra if a library is missing."""
    try:
        yield
    except ImportError:
        console.note(
            f"no {what} was written, because a library is not installed. Install it with "
            f'`pip install "jaxkick[{what}]"`.'
        )
    except kind as error:
        console.note(f"no {what} was written ({type(error).__name__}: {error}).")
