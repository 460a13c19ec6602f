"""Settings for every test: 64-bit numbers, no silent promotion of types, quick compilation."""

import gc
import os
from pathlib import Path

import jaxlib
import pytest

# Tests compile many programs and run each on a few numbers, so that optimising them costs
# three times what it gains. A flag that a later XLA does not know would end the process.
if (0, 8) <= jaxlib.version.__version_info__[:2] < (0, 11):
    os.environ["XLA_FLAGS"] = " ".join(
        [
            os.environ.get("XLA_FLAGS", ""),
            "--xla_backend_optimization_level=0",
            "--xla_cpu_use_fusion_emitters=false",
        ]
    )

import jax

jax.config.update("jax_enable_x64", True)
# Devices for the tests of sharding; the others use the first.
jax.config.update("jax_num_cpu_devices", 3)
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Every compiled program maps some pieces of memory, of which Linux allows a process 65,530.
_MOST_MAPS = 20_000


@pytest.fixture(autouse=True)
def _few_programs():
    """Forgets compiled programs before there are too many for the system."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()
        gc.collect()
