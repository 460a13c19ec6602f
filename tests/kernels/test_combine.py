"""Operators, texts and refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxkick.kernels import (
    FIRST,
    Affine,
    Constant,
    Cosine,
    Instant,
    Linear,
    Matern12,
    Matern32,
    PiecewiseConstant,
    Product,
    SquaredExponential,
    Sum,
    Wiener,
)
from jaxkick.parameters import Fixed, Positive

SLOW, FAST = Matern32(0.9, 7.5), Matern12(0.5, 0.1)
START, END = Instant.at(1.0), Instant.at(1.5)


def test_sums_and_products_are_opened_up():
    total = Constant(0.03) + (SLOW + FAST)
    assert isinstance(total, Sum)
    assert len(total.terms) == 3
    product = (SLOW * FAST) * Constant(0.03)
    assert isinstance(product, Product)
    assert len(product.factors) == 3
    assert len((total * FAST).factors) == 2


def test_texts_read_like_formulas():
    assert repr(Constant(0.03) + SLOW) == (
        "Constant(variance=0.03) + Matern32(variance=0.9, lengthscale=7.5)"
    )
    assert repr((Constant(0.03) + Constant(1)) * SLOW) == (
        "(Constant(variance=0.03) + Constant(variance=1)) * Matern32(variance=0.9, lengthscale=7.5)"
    )
    assert repr(SLOW * FAST + FAST) == f"{SLOW!r} * {FAST!r} + {FAST!r}"
    assert repr(2.5 * SLOW) == f"2.5 * {SLOW!r}"
    assert repr(Wiener(0.1)) == "Wiener(variance=0.1, origin=FIRST, origin_variance=0)"
    assert repr(Linear(2, origin=1999)) == "Linear(variance=2, origin=1999)"
    assert repr(Cosine(1, 2)) == "Cosine(variance=1, period=2)"
    assert repr(Cosine(1, 2, 3)) == "Cosine(variance=1, period=2, lengthscale=3)"
    assert repr(SquaredExponential(1, 2)) == (
        "SquaredExponential(variance=1, lengthscale=2, order=6)"
    )
    assert repr(PiecewiseConstant(1, [2018.4567891])) == (
        "PiecewiseConstant(variance=1, boundaries=(2018.4567891,))"
    )
    assert repr(Product(Constant(Fixed(2.0)))) == "Constant(variance=2)"


def test_unknown_values_show_as_question_marks():
    texts = []

    @jax.jit
    def traced(kernel):
        texts.append(repr(kernel))
        return kernel

    traced(SLOW + FAST)
    assert texts == ["Matern32(variance=?, lengthscale=?) + Matern12(variance=?, lengthscale=?)"]
    arrays, _ = eqx.partition(SLOW, lambda leaf: False)
    assert repr(arrays) == "Matern32(variance=?, lengthscale=?)"


@pytest.mark.parametrize("number", [2, 2.0, np.float64(2.0), np.float32(2.0), np.array(2.0)])
def test_plain_numbers_scale_and_stay_fixed(number):
    for kernel in (number * SLOW, SLOW * number):
        np.testing.assert_allclose(
            kernel.covariance(START, END), 2.0 * SLOW.covariance(START, END), rtol=1e-14
        )
        slopes = jax.grad(lambda kernel: kernel.covariance(START, END))(kernel)
        scale = next(f for f in slopes.factors if isinstance(f, Constant))
        assert scale.variance.constant == 0.0


def test_arrays_scale_and_pass_gradients():
    slope = jax.grad(lambda scale: (scale * SLOW).covariance(START, END))(jnp.asarray(2.0))
    np.testing.assert_allclose(slope, SLOW.covariance(START, END), rtol=1e-14)
    assert isinstance((SLOW * jnp.asarray(2.0)).factors[1].variance, Positive)


def test_what_is_not_a_kernel_is_refused():
    with pytest.raises(TypeError, match="added to another kernel, not to an object of type `int`"):
        SLOW + 1
    with pytest.raises(TypeError, match="For a score that never changes, add `Constant"):
        1.0 + SLOW
    with pytest.raises(TypeError, match="by a number, not by an object of type `str`"):
        SLOW * "2"
    with pytest.raises(TypeError, match="not by an object of type `bool`"):
        True * SLOW
    with pytest.raises(TypeError, match="not by an object of type `ndarray`"):
        np.ones(2) * SLOW
    with pytest.raises(TypeError, match="`terms` of Sum must be at least one kernel, not nothing"):
        Sum()
    with pytest.raises(TypeError, match="`factors` of Product must be at least one kernel"):
        Product(SLOW, 3.0)


@pytest.mark.parametrize("number", [0, -1.0, np.inf, np.nan])
def test_scales_are_above_zero(number):
    with pytest.raises(ValueError, match="scaled by a positive finite number"):
        number * SLOW


def test_parameters_are_above_zero():
    for make in (Constant, lambda v: Matern12(1.0, v), lambda v: Cosine(1.0, 1.0, v), Wiener):
        for value in (0.0, -1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match="must be positive and finite"):
                make(value)
    with pytest.raises(ValueError, match="must be positive"):
        Wiener(1.0, origin_variance=-0.1)
    with pytest.raises(ValueError, match="must be positive"):
        Affine(1.0, 0.0)


def test_origins_and_boundaries_are_checked():
    with pytest.raises(
        ValueError, match="`origin` is 'first', but must be a finite number or `FIRST`"
    ):
        Wiener(1.0, origin="first")
    with pytest.raises(ValueError, match="`origin` is nan, but must be a finite number or `FIRST`"):
        Linear(1.0, origin=float("nan"))
    with pytest.raises(ValueError, match="`boundaries` must be finite numbers"):
        PiecewiseConstant(1.0, [1.0, np.inf])
    assert Wiener(1.0).origin is FIRST
    assert PiecewiseConstant(1.0, np.array([3.0, 1.0])).boundaries == (1.0, 3.0)


def test_one_compilation_for_all_values_of_the_parameters():
    count = 0

    @eqx.filter_jit
    def covariance(kernel):
        nonlocal count
        count += 1
        return kernel.covariance(START, END)

    for variance in (1.0, 2, np.float64(3.0), jnp.asarray(4.0)):
        kernel = Constant(variance) + 2.0 * Matern12(variance, variance)
        covariance(kernel)
        covariance(jax.tree.map(lambda leaf: leaf + 0.1, kernel))
    assert count == 1
