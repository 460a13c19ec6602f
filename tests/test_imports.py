"""Imports point one way, and importing changes nothing."""

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "jaxkick"

# A module may import from its own layer and from those before it.
LAYERS = [
    ["_files", "_typing", "_tracing"],
    ["_sharding"],
    ["_numerics", "_smallmat"],
    ["_parameters"],
    ["kernels"],
    ["likelihoods"],
    ["_tree"],
    ["statespace"],
    ["dataset", "datasets"],
    ["tables"],
    ["describe"],
    ["model"],
    ["inference"],
    ["outcomes"],
    ["prediction", "ranking", "sampling", "scores"],
    ["competitors", "counts", "diagnosis"],
    ["matches", "updating"],
    ["posterior", "stream"],
    ["storage"],
    ["learning"],
    ["plotting"],
    ["evaluation"],
    ["report"],
    ["compat"],
    ["_api"],
    ["__init__"],
    ["cli"],
    ["__main__"],
]
ORDER = {name: place for place, layer in enumerate(LAYERS) for name in layer}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("jaxkick.")}
    return found


def test_imports_point_one_way():
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for other in imported(path) & set(ORDER):
            if ORDER[other] > ORDER[part]:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {other}")
    assert not wrong


def test_kernels_and_likelihoods_know_nothing_of_each_other():
    for folder, foreign in {"kernels": "likelihoods", "likelihoods": "kernels"}.items():
        for path in (PACKAGE / folder).rglob("*.py"):
            assert not imported(path) & {foreign, "statespace", "inference", "dataset"}, path


def test_importing_changes_no_configuration():
    program = (
        "import jax; before = dict(jax.config.values); from jaxkick import *; "
        "assert before == dict(jax.config.values); "
        "import sys; assert all(f'jaxkick.{name}' in sys.modules for name in ('_api', 'plotting'))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
