"""Anderson acceleration on its own."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxkick.inference.acceleration import accelerate, empty_history

RATES = np.linspace(0.1, 0.9, 5)
GOAL = np.array([1.0, -2.0, 0.5, 3.0, -1.0])


def run(steps, spoil=None):
    """Errors of a contraction in five dimensions; at step `spoil` a difference is enormous."""
    z, history = jnp.zeros(5), empty_history(jnp.zeros(5), 6)
    old_update = old_residual = jnp.zeros(5)
    errors, failures = [], []
    for count in range(steps):
        residual = (jnp.asarray(RATES) - 1.0) * (z - GOAL)
        update = z + residual
        scale = 1e25 if count == spoil else 1.0
        found = accelerate(
            history,
            scale * (update - old_update),
            scale * (residual - old_residual),
            update,
            residual,
            jnp.asarray(count == 0),
        )
        old_update, old_residual, history = update, residual, found.history
        z = jnp.where(found.failed, update, found.following)
        failures.append(bool(found.failed))
        errors.append(float(jnp.max(jnp.abs(z - GOAL))))
    return errors, failures


def test_a_linear_map_takes_as_many_steps_as_dimensions():
    errors, failures = run(9)
    assert failures == [True] + [False] * 8
    assert errors[-1] < 1e-6
    plain = np.max(np.abs(RATES**9 * GOAL))
    assert errors[-1] < 1e-4 * plain


@pytest.mark.parametrize("spoil", [3, 5])
def test_a_difference_beyond_all_numbers_is_forgotten(spoil):
    errors, failures = run(12, spoil)
    assert failures[spoil]
    assert not any(failures[spoil + 1 :])
    assert errors[-1] < 1e-6
