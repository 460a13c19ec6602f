"""How many unpleasant leagues are fitted, and what goes wrong?

    python benchmarks/robustness.py              # 50 leagues of every kind and setting
    python benchmarks/robustness.py --seeds 500

Leagues, settings and what must hold are those of `tests/robustness/leagues.py`: finite
numbers, variances that are positive and never above the prior's, proper probabilities,
convergence, and scores that mirror when sides are swapped.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jax

jax.config.update("jax_enable_x64", True)

from tests.robustness.leagues import KINDS, SETTINGS, faults  # noqa: E402


def main() -> None:
    """Try leagues and count faults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50, help="leagues of every kind and setting")
    options = parser.parse_args()
    tried, found = 0, Counter()
    for name, setting in SETTINGS.items():
        for kind in KINDS:
            for seed in range(options.seeds):
                tried += 1
                for fault in faults(kind, seed, setting):
                    found[f"{name}, {kind}: {fault}"] += 1
        print(f"{name}: {tried:,} leagues tried so far, {found.total():,} faults", flush=True)
    for fault, count in found.most_common():
        print(f"{count:6,}  {fault}")


if __name__ == "__main__":
    main()
