"""Imports point one way, and importing jaxkick changes nothing."""

import ast
import os
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "jaxkick"

# A module may import from its own layer and from those before it.
LAYERS = [
    ["_cache", "_typing", "_xla", "errors"],
    ["_math", "parameters"],
    ["kernels", "likelihoods"],
    ["chains", "data", "datasets"],
    ["newcomers"],
    ["model"],
    ["inference", "posterior"],
    ["online"],
    ["io"],
    ["learning"],
    ["evaluation"],
    ["compat", "discovery", "report", "simulation"],
    ["plotting"],
    ["_api", "__init__"],
    ["cli", "__main__"],
]
ORDER = {name: place for place, layer in enumerate(LAYERS) for name in layer}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in PACKAGE.rglob("*.py")}


def imported(path: Path, only_at_import: bool = False) -> set[str]:
    """The modules of jaxkick that a file imports, anywhere or when it is itself imported."""
    tree = ast.parse(path.read_text())
    found = set()
    for node in tree.body if only_at_import else ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [
                f"{node.module}.{alias.name}"
                if f"{node.module}.{alias.name}" in MODULES
                else node.module
                for alias in node.names
            ]
        found |= {name for name in names if name.startswith("jaxkick.")}
    return found


def part_of(module: str) -> str:
    return "__init__" if module == "jaxkick" else module.split(".")[1]


def test_every_module_has_a_name_of_its_own():
    names = Counter(path.stem for path in MODULES.values() if path.stem != "__init__")
    assert not [name for name, count in names.items() if count > 1]


def test_every_part_has_a_layer():
    assert {part_of(module) for module in MODULES} <= set(ORDER)


def test_imports_point_one_way():
    wrong = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        for other in imported(path)
        if ORDER[part_of(other)] > ORDER[part_of(module)]
    ]
    assert not wrong


def test_no_module_imports_itself_in_a_circle():
    graph = {module: imported(path, only_at_import=True) for module, path in MODULES.items()}
    TopologicalSorter(graph).prepare()


def test_kernels_and_likelihoods_know_nothing_of_each_other():
    for folder, foreign in {"kernels": "likelihoods", "likelihoods": "kernels"}.items():
        for module, path in MODULES.items():
            if part_of(module) == folder:
                parts = {part_of(other) for other in imported(path)}
                assert not parts & {foreign, "chains", "inference", "data"}, module


def test_compiled_programs_are_kept_where_the_user_asks(tmp_path):
    program = (
        "import jax, jaxkick as jk; folder = jk.enable_compilation_cache(); "
        "jax.jit(lambda x: x + 1)(1.0); print(folder, len(list(folder.iterdir())))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
    )
    folder, count = ran.stdout.rsplit(maxsplit=1)
    assert Path(folder) == tmp_path / "jaxkick" / "programs"
    assert int(count) > 0


def test_importing_changes_no_configuration():
    program = (
        "import jax; before = dict(jax.config.values); from jaxkick import *; "
        "assert before == dict(jax.config.values); "
        "import sys; assert all(f'jaxkick.{name}' in sys.modules for name in ('data', 'plotting'))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
