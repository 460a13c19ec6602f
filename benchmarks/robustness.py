"""How many unpleasant inputs are tried, and what goes wrong?

    python benchmarks/robustness.py              # 200 leagues of every setting, 500 of each file
    python benchmarks/robustness.py --leagues 5000 --files 50000

Leagues: of every setting of `tests/robustness/leagues.py`, with up to three unpleasant kinds
together and parameters moved by up to some factors of e. What must hold: finite numbers,
variances that are positive and never above the prior's, proper probabilities, an end that
holds when inference starts again from it, a weight of zero that is as good as no match, and
scores that mirror when sides are swapped. Where a fit does not converge and says so, that is
counted apart.

Files: models, posteriors and streams with bytes, descriptions or arrays changed by chance, and
tables in CSV and Parquet with other bytes. What must hold: an object or a table, or an error in
words.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

from tests.robustness.files import (  # noqa: E402
    good_files,
    good_tables,
    spoil,
    spoil_bytes,
    table_ends,
    unpleasant_ends,
)
from tests.robustness.leagues import KINDS, SETTINGS, League, examine  # noqa: E402


def try_leagues(count: int, begin: int) -> Counter:
    """Fit leagues of every setting and count faults."""
    found = Counter()
    for name, setting in SETTINGS.items():
        wrong = unfinished = 0
        for seed in range(begin, begin + count):
            rng = np.random.default_rng([2, seed])
            kinds = rng.choice(KINDS, rng.integers(0, 4), replace=False)
            league = League(frozenset(map(str, kinds)), seed, float(rng.integers(0, 3)))
            verdict = examine(league, setting)
            wrong += bool(verdict.faults)
            unfinished += not verdict.converged
            for fault in verdict.faults:
                found[f"{name}, {' and '.join(sorted(league.kinds)) or 'plain'}: {fault}"] += 1
        print(
            f"{name:14s} {count:7,} leagues, {wrong:5,} with a fault, {unfinished:,} where "
            "inference says that it took all of its steps",
            flush=True,
        )
    return found


def try_files(count: int) -> Counter:
    """Read spoilt files and count ends that are not as they should be."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = Counter()
        for kind, good in good_files(folder).items():
            found += _spoil_one(kind, good, count, folder / "file", spoil, unpleasant_ends)
        for kind, good in good_tables().items():
            found += _spoil_one(kind, good, count, folder / "table", spoil_bytes, table_ends)
    return found


def _spoil_one(
    kind: str, good: bytes, count: int, path: Path, spoil: Callable, ends: Callable
) -> Counter:
    found, rng = Counter(), np.random.default_rng(0)
    for _ in range(count):
        path.write_bytes(spoil(good, rng))
        found.update(f"{kind} file: {end[:60]}" for end in ends(path))
    print(f"{kind:14s} {count:7,} files,   {found.total():5,} with a fault", flush=True)
    return found


def main() -> None:
    """Try inputs and count faults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leagues", type=int, default=200, help="leagues of every setting")
    parser.add_argument("--begin", type=int, default=0, help="the seed of the first league")
    parser.add_argument("--files", type=int, default=500, help="spoilt files of every kind")
    options = parser.parse_args()
    found = try_files(options.files) + try_leagues(options.leagues, options.begin)
    tried = options.files * (3 + len(good_tables())) + options.leagues * len(SETTINGS)
    print(f"{tried:,} inputs tried, {found.total():,} faults")
    for fault, count in found.most_common():
        print(f"{count:6,}  {fault}")


if __name__ == "__main__":
    main()
