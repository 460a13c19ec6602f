"""Settings for every test: 64-bit numbers, no silent promotion of types, quick compilation."""

import os

import jaxlib

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
