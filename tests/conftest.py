"""Settings for every test: 64-bit numbers and no silent promotion of types."""

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
