"""Settings of all tests: 64-bit numbers, strict promotion, checked types, quick compilation."""

import gc
import os
from pathlib import Path

import jaxlib
import jaxtyping
import pytest

from tests import typechecking

# Tests compile many programs and run each on a few numbers: without optimisation they take a
# third of the time, and a quarter less in one piece than in parallel pieces. An XLA that does not
# know a flag would end the process. `JAXKICK_TEST_OPTIMIZED=1` compiles as for large data.
if (0, 8) <= jaxlib.version.__version_info__[:2] < (0, 11) and not os.environ.get(
    "JAXKICK_TEST_OPTIMIZED"
):
    os.environ["XLA_FLAGS"] = " ".join(
        [
            os.environ.get("XLA_FLAGS", ""),
            "--xla_backend_optimization_level=0",
            "--xla_cpu_use_fusion_emitters=false",
            "--xla_cpu_parallel_codegen_split_count=1",
        ]
    )

# With `JAX_COMPILATION_CACHE_DIR`, keep every program for later runs. There is no folder by
# default, because few programs are compiled twice within one run.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# kickscore, the reference of many fits, takes 15 seconds of every process to compile, and a few
# to interpret.
os.environ["NUMBA_DISABLE_JIT"] = "1"

import jax

jaxtyping.install_import_hook("jaxkick", f"{typechecking.__name__}.typechecked")

if os.environ.get("JAXKICK_TEST_OPTIMIZED"):
    from jaxkick import _xla

    # Data of tests is small, and would be compiled without optimisation.
    _xla._has_options = lambda: False

jax.config.update("jax_enable_x64", True)
# Three devices for the tests of sharding; all other tests use the first.
jax.config.update("jax_num_cpu_devices", 3)
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Tracing allocates so many objects that Python's default thresholds spend a quarter of its time
# in garbage collection.
gc.set_threshold(200_000, 20, 100)

# A compiled program maps several pieces of memory. Linux allows a process 65,530, and the tests
# of one file need fewer than 20,000.
_MOST_MAPS = 25_000


@pytest.fixture(autouse=True, scope="module")
def _few_programs():
    """Drop compiled programs before the process has too many memory maps."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()
        gc.collect()


# Their tests take longest. They come first, so that all processes end at about the same time.
_LONG_FILES = ("test_notebooks.py", "test_processes.py")


def pytest_collection_modifyitems(items):
    """Start with the longest tests."""
    items.sort(key=lambda item: item.path.name not in _LONG_FILES)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep the tests of a file in one process, which compiles their programs once."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)
