"""Reproduce the tables of the paper with its protocol.

    python benchmarks/paper_tables.py --quick                # every table on a tenth of the data
    python benchmarks/paper_tables.py --tables predperf      # one table, or several
    python benchmarks/paper_tables.py                        # everything: hours

The protocol: predict the last 30 % of the matches, each day from all earlier days. Each model runs
with the parameters of the paper's appendix, and with parameters learnt on the first 70 %. `--quick`
uses the last tenth of the data and predicts a tenth of it; it checks that everything runs, and its
numbers do not compare with the paper's. Results are kept in a JSON file; cases that are already in
it are not run again. The football data differs from the paper's. Reads the folder in JAXKICK_DATA,
or ../shared/data. Needs pandas (the `dev` extra).
"""

import argparse
import json
import time
from pathlib import Path

import jax
from paper_cases import TABLES, Setting


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--cases", nargs="+", default=[""], help="parts of names of cases")
    parser.add_argument("--quick", action="store_true", help="use a tenth of the data")
    parser.add_argument("--output", type=Path, help="JSON file of results")
    parser.add_argument("--float32", action="store_true", help="faster; same to 4 digits")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", not options.float32)
    name = "paper_tables_quick.json" if options.quick else "paper_tables.json"
    path = options.output or Path(__file__).with_name(name)
    results = json.loads(path.read_text()) if path.exists() else {}
    setting = Setting(quick=options.quick)
    for table in options.tables:
        print(f"\n{table}\n{'case':38s} {'paper':>15s} {'ours':>17s} {'seconds':>8s}", flush=True)
        for case in TABLES[table]():
            key = f"{table}: {case.name}"
            if not any(part in key for part in options.cases):
                continue
            if key not in results:
                start = time.perf_counter()
                found = case.run(setting)
                seconds = time.perf_counter() - start
                results[key] = {
                    "paper": case.paper,
                    "ours": found,
                    "seconds": round(seconds, 1),
                    "bits": 32 if options.float32 else 64,
                }
                keep(path, results)
            print_row(case.name, results[key])


def keep(path: Path, results: dict) -> None:
    """Write the results atomically."""
    whole = path.with_suffix(".part")
    whole.write_text(json.dumps(results, indent=1) + "\n")
    whole.replace(path)


def print_row(name: str, row: dict) -> None:
    """Print the paper's numbers and ours."""

    def shown(values: list, digits: int) -> str:
        return " ".join("-" if value is None else f"{value:.{digits}f}" for value in values)

    print(
        f"{name:38s} {shown(row['paper'], 3):>15s} {shown(row['ours'], 4):>17s} "
        f"{row['seconds']:8.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
