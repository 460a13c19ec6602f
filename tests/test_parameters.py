"""Parameters: constraints, types, texts and refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxkick as jk
from jaxkick.parameters import (
    AbstractParameter,
    Fixed,
    Ordered,
    Positive,
    Real,
    format_value,
    nonnegative,
    ordered,
    positive,
    real,
    resolve,
)


class Pair(eqx.Module):
    """Something with parameters and something else."""

    scale: AbstractParameter = eqx.field(converter=positive)
    cuts: AbstractParameter = eqx.field(converter=ordered)
    label: str = eqx.field(static=True, default="a")


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-30, 1e30), st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=4))
def test_values_come_back(scale, numbers):
    np.testing.assert_allclose(Positive(scale).value, scale, rtol=1e-13)
    np.testing.assert_array_equal(Real(numbers).value, numbers)
    np.testing.assert_array_equal(Fixed(numbers).value, numbers)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=3, max_size=3))
def test_constraints_hold_wherever_an_optimiser_goes(moves):
    pair = Pair(2.0, [-1.0, 0.5])
    leaves, structure = jax.tree.flatten(pair)
    leaves = [leaf + np.resize(moves, leaf.shape) for leaf in leaves]
    moved = jax.tree.unflatten(structure, leaves)
    assert moved.scale.value > 0
    assert np.all(np.diff(moved.cuts.value) >= 0)


def test_ordered_values_come_back():
    np.testing.assert_allclose(Ordered([-1.0, 0.5, 7.0]).value, [-1.0, 0.5, 7.0], rtol=1e-14)
    np.testing.assert_array_equal(Ordered([3.0]).value, [3.0])


def test_converters():
    assert isinstance(positive(1), Positive)
    assert isinstance(nonnegative(0), Fixed)
    assert isinstance(nonnegative(0.1), Positive)
    assert isinstance(real(-1), Real)
    assert isinstance(ordered([1, 2]), Ordered)
    for converter in (positive, nonnegative, real, ordered):
        parameter = Fixed([1.0])
        assert converter(parameter) is parameter


@pytest.mark.parametrize("value", [2, 2.0, np.int32(2), np.float64(2.0), jnp.asarray(2)])
def test_every_number_becomes_a_strong_type(value):
    for parameter in (Positive(value), Real(value), Fixed(value)):
        (leaf,) = jax.tree.leaves(parameter)
        assert leaf.dtype == jnp.float64
        assert not leaf.weak_type
        assert parameter.value == 2.0


def test_single_precision_stays():
    assert Positive(np.float32(2.0)).value.dtype == jnp.float32


def test_gradients():
    def value(parameter):
        return parameter.value

    assert jax.grad(value)(Positive(3.0)).log_value == pytest.approx(3.0)
    assert jax.grad(value)(Real(3.0)).raw == 1.0
    assert jax.grad(value)(Fixed(3.0)).constant == 0.0
    assert jax.grad(value)(resolve(Positive(3.0))).raw == 1.0


def test_resolve_computes_values_once_and_casts():
    pair = resolve(Pair(2.0, [-1.0, 0.5]), jnp.dtype(jnp.float32))
    assert pair.scale.value.dtype == pair.cuts.value.dtype == jnp.float32
    np.testing.assert_allclose(pair.cuts.value, [-1.0, 0.5], rtol=1e-6)
    assert pair.label == "a"
    lowered = jax.make_jaxpr(lambda pair: pair.scale.value)(pair)
    assert not lowered.eqns


def test_resolve_passes_gradients():
    slope = jax.grad(lambda scale: resolve(Pair(scale, [0.0])).scale.value)(2.0)
    assert slope == pytest.approx(1.0)


def test_texts():
    assert repr(Positive(0.03)) == "0.03"
    assert repr(Real([1, 2.5])) == "[1, 2.5]"
    assert format_value(np.array([[0.0, 1.0], [-3.0, 1e-9]])) == "[[0, 1], [-3, 1e-09]]"
    assert repr(eqx.tree_at(lambda p: p.log_value, Positive(1.0), None)) == "?"
    seen = []
    jax.jit(lambda parameter: seen.append(repr(parameter)))(Positive(1.0))
    assert seen == ["?"]


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, [1.0, -1.0]])
def test_positive_refuses(value):
    with pytest.raises(ValueError, match=r"`value` is .*, but must be positive and finite\."):
        positive(value)


def test_the_others_refuse():
    with pytest.raises(ValueError, match=r"`value` is nan, but must be finite\."):
        real(np.nan)
    with pytest.raises(ValueError, match="must be positive"):
        nonnegative(-1.0)
    for values in ([1.0, 1.0], [2.0, 1.0], [[1.0, 2.0]], [], [0.0, np.inf]):
        with pytest.raises(ValueError, match="strictly increasing sequence of finite numbers"):
            ordered(values)


def test_traced_values_pass():
    found = jax.jit(lambda value: (Positive(value).value, nonnegative(value).value))(2.0)
    np.testing.assert_allclose(found, [2.0, 2.0], rtol=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: jk.kernels.Matern12(-1.0, 1.0), "`variance` is -1.0, but must be positive"),
        (lambda: jk.kernels.Matern12(1.0, "x"), "`lengthscale` is 'x', but must be a number"),
        (
            lambda: jk.kernels.Matern12(jk.Fixed(-1.0), 1.0),
            "`variance` is -1.0, but must not be negative",
        ),
        (
            lambda: jk.kernels.Matern12(1.0, jk.Real(-2.0)),
            "`lengthscale` is -2.0, but must not be negative",
        ),
        (lambda: jk.kernels.Wiener(jk.Tied("a", jk.Fixed(-1.0))), "`variance` is -1.0"),
        (lambda: jk.kernels.Wiener(jk.Tied("a", -1.0)), "`variance` is -1.0"),
        (lambda: jk.kernels.PiecewiseConstant(0.0, [1.0]), "`variance` is 0.0"),
        (lambda: jk.kernels.Cosine(1.0, 1.0, -3.0), "`lengthscale` is -3.0"),
        (lambda: jk.kernels.LinearSDE([[np.nan]], [1.0], 1.0, [1.0]), "`feed"),
        (lambda: jk.likelihoods.Gaussian(jk.Fixed(-0.1)), "`variance` is -0.1"),
        (lambda: jk.likelihoods.OrdinalProbit(margin=-1.0), "`margin` is -1.0"),
        (lambda: jk.likelihoods.OrdinalLogit(cuts=jk.Fixed([2.0, 1.0])), "`cuts` is .* increasing"),
        (lambda: jk.likelihoods.Skellam(np.inf), "`base_rate` is inf"),
        (lambda: jk.Model(jk.kernels.Constant(1.0), jk.likelihoods.Probit(), "x"), "`mean` is 'x'"),
        (lambda: jk.Fixed(np.nan), "`value` is nan, but must be finite"),
    ],
)
def test_errors_name_the_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_parameters_work_as_numbers():
    kernel = jk.kernels.Matern12(4.0, 2.0)
    assert float(kernel.variance) == pytest.approx(4.0)
    assert f"{kernel.variance:.2f}" == "4.00"
    assert str(kernel.variance) == "4"
    np.testing.assert_allclose(jnp.asarray(kernel.variance), 4.0)
    np.testing.assert_allclose(np.asarray(kernel.variance), 4.0)
    np.testing.assert_allclose(jnp.sqrt(kernel.variance), 2.0)
    np.testing.assert_allclose(np.sqrt(kernel.variance), 2.0)
    found = 1.0 + kernel.variance / kernel.lengthscale - 3 * kernel.variance**2 / np.float64(2.0)
    np.testing.assert_allclose(found, 1.0 + 2.0 - 24.0)
    np.testing.assert_allclose(-kernel.variance - 1, -5.0)
    np.testing.assert_allclose(2.0**kernel.lengthscale, 4.0)
    assert kernel.lengthscale < kernel.variance > 3.0
    np.testing.assert_allclose(np.asarray(Ordered([1.0, 2.0])) * 2, [2.0, 4.0])


def test_parameters_work_as_numbers_under_transformations():
    def area(kernel):
        return 2.0 * kernel.variance * jnp.sqrt(kernel.lengthscale)

    kernel = jk.kernels.Matern12(4.0, 9.0)
    np.testing.assert_allclose(jax.jit(area)(kernel), 24.0)
    slopes = jax.grad(area)(kernel)
    np.testing.assert_allclose(slopes.variance.log_value, 24.0)
    many = jax.vmap(lambda variance: jk.kernels.Matern12(variance, 9.0))(jnp.arange(1.0, 4.0))
    np.testing.assert_allclose(jax.vmap(area)(many), [6.0, 12.0, 18.0])


def test_a_parameter_scales_a_kernel():
    scale = Positive(3.0)
    for product in (scale * jk.kernels.Constant(2.0), jk.kernels.Constant(2.0) * scale):
        zero = jk.kernels.Instant.at(0.0)
        np.testing.assert_allclose(product.covariance(zero, zero), 6.0)


def test_a_fixed_zero_and_traced_parameters_pass():
    assert jk.kernels.Constant(jk.Fixed(0.0)).variance.value == 0.0
    found = jax.jit(lambda value: jk.kernels.Constant(jk.Fixed(value)).variance.value)(-1.0)
    assert found == -1.0
