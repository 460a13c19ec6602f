"""Try many difficult leagues and corrupted files, and count faults.

    python benchmarks/robustness.py              # 200 leagues per setting, 500 files per kind
    python benchmarks/robustness.py --leagues 5000 --files 50000

Leagues: each setting of `tests/robustness/leagues.py`, with up to three kinds of difficulty at once
and perturbed parameters. Checks: all numbers are finite; variances are positive and at most the
prior's; probabilities are proper; a warm start from the result stays there; a weight of zero equals
removing the match; swapping the sides mirrors the scores. Fits that report that they did not
converge are counted separately.

Files: models, posteriors and streams with random changes of bytes, descriptions or arrays, and
tables in CSV and Parquet with changed bytes. Reading must return an object or a table, or raise an
error with a clear message.
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
    """Fit leagues of each setting and count faults."""
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
            f"{name:14s} {count:7,} leagues, {wrong:5,} with a fault, {unfinished:,} not converged",
            flush=True,
        )
    return found


def try_files(count: int) -> Counter:
    """Read corrupted files and count faults."""
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
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leagues", type=int, default=200, help="leagues per setting")
    parser.add_argument("--begin", type=int, default=0, help="seed of the first league")
    parser.add_argument("--files", type=int, default=500, help="corrupted files per kind")
    options = parser.parse_args()
    found = try_files(options.files) + try_leagues(options.leagues, options.begin)
    tried = options.files * (3 + len(good_tables())) + options.leagues * len(SETTINGS)
    print(f"{tried:,} inputs tried, {found.total():,} faults")
    for fault, count in found.most_common():
        print(f"{count:6,}  {fault}")


if __name__ == "__main__":
    main()
