"""Properties of `infer` for all data: fixed points, invariances, masks, errors."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxkick as jk
from jaxkick.inference.fixed_point import plain_update
from jaxkick.inference.problem import make_problem

RNG = np.random.default_rng(7)
N = 40
TIMES = np.sort(RNG.integers(0, 12, N) / 2.0)
FIRST = RNG.integers(0, 5, N)
SECOND = (FIRST + RNG.integers(1, 5, N)) % 5
OUTCOME = np.where(RNG.random(N) < 0.6, 1.0, -1.0)
MODEL = jk.Model(jk.kernels.Constant(0.4) + jk.kernels.Matern12(0.8, 3.0), jk.likelihoods.Probit())
METHODS = [jk.ExpectationPropagation(), jk.ReverseKL()]


def make_data(order=slice(None), **options):
    names = np.array(["ann", "bob", "cat", "dan", "eve"])
    return jk.Dataset.from_pairs(
        TIMES[order], names[FIRST[order]], names[SECOND[order]], OUTCOME[order], **options
    )


DATA = make_data()


def fit(data=DATA, method=METHODS[0], **options):
    return jk.infer(MODEL, data, method, **{"tol": 1e-9, **options})


def assert_same(first, second, tolerance=1e-8):
    for name in ("ann", "dan"):
        ours, theirs = (posterior.scores(name, TIMES, joint=False) for posterior in (first, second))
        np.testing.assert_allclose(ours.mean, theirs.mean, atol=tolerance)
        np.testing.assert_allclose(ours.variance, theirs.variance, atol=tolerance)
    np.testing.assert_allclose(
        first.log_marginal_likelihood, second.log_marginal_likelihood, atol=tolerance
    )


@pytest.mark.parametrize("method", METHODS)
def test_ends_at_a_fixed_point(method):
    posterior = fit(method=method)
    problem = make_problem(MODEL, dataclasses.replace(DATA, index=None))
    update = eqx.filter_jit(plain_update)(method, problem, posterior.sites)
    moved = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), update, posterior.sites)
    assert max(jax.tree.leaves(moved)) < 1e-8


def test_order_of_rows_and_length_of_rows_change_nothing():
    shuffled = fit(make_data(np.random.default_rng(1).permutation(N), row_length=3))
    assert_same(fit(), shuffled)


def test_damping_and_acceleration_lead_to_the_same_point():
    assert_same(fit(), fit(method=jk.ExpectationPropagation(damping=0.3)))


@pytest.mark.parametrize("method", METHODS)
def test_a_mask_equals_leaving_out_and_a_weight_of_zero(method):
    keep = np.arange(N) % 3 > 0
    masked = fit(method=method, mask=keep)
    weighted = fit(make_data(weight=keep.astype(float)), method=method)
    without = fit(make_data(np.flatnonzero(keep)), method=method)
    assert_same(masked, without)
    assert_same(weighted, without)


def test_a_weight_of_two_repeats_a_match_in_reverse_kl():
    twice = np.repeat(np.arange(N), 1 + (np.arange(N) % 2))
    assert_same(
        fit(make_data(weight=1.0 + np.arange(N) % 2), method=METHODS[1]),
        fit(make_data(twice), method=METHODS[1]),
    )


def test_counts_that_no_longer_count_leave_no_trace_in_reverse_kl():
    """Its short strides must not keep alive what a warm start brings along."""
    counts = dataclasses.replace(DATA, outcome=10.0 + 10.0 * DATA.outcome)
    model, keep = jk.Model(MODEL.kernel, jk.likelihoods.Poisson()), TIMES < 3
    everything = jk.infer(model, counts, METHODS[1])
    masked = jk.infer(model, counts, METHODS[1], start=everything, mask=keep)
    for posterior, matches in ((everything, N), (masked, keep.sum())):
        for part in posterior.sites[0]:
            assert np.count_nonzero(part) == 2 * matches


@pytest.mark.parametrize("kernel", [jk.kernels.Wiener(1.0), jk.kernels.Affine(0.5, 0.1)])
def test_origins_are_at_the_first_match_that_counts(kernel, tmp_path):
    model = jk.Model(kernel, jk.likelihoods.Probit())
    rows = ([0.0, 5.0, 6.0, 7.5], ["a", "a", "a", "b"], ["b", "b", "c", "c"], [1.0, -1.0, 1.0, 1.0])
    data, keep, times = jk.Dataset.from_pairs(*rows), np.arange(4) > 0, np.array([3.0, 5.5, 9.0])
    weighted = jk.Dataset.from_pairs(*rows, weight=keep.astype(float))
    expected = jk.infer(model, data.subset(keep), tol=1e-9)
    masked = jk.infer(model, data, mask=keep, tol=1e-9)
    jk.save(tmp_path / "masked.jaxkick", masked)
    loaded = jk.load(tmp_path / "masked.jaxkick")
    for found in (masked, loaded, jk.infer(model, weighted, tol=1e-9)):
        evidences = found.log_marginal_likelihood, expected.log_marginal_likelihood
        np.testing.assert_allclose(*evidences, rtol=1e-8)
        for name in ("mean", "variance"):
            pair = (getattr(each.predict("a", "b", times), name) for each in (found, expected))
            np.testing.assert_allclose(*pair, atol=1e-8)


def test_learning_starts_origins_at_the_first_match_that_counts():
    model = jk.Model(jk.kernels.Affine(0.5, 0.1), jk.likelihoods.Probit())
    rows = ([0.0, 5.0, 6.0, 7.5], ["a", "a", "a", "b"], ["b", "b", "c", "c"], [1.0, -1.0, 1.0, 1.0])
    data, keep = jk.Dataset.from_pairs(*rows), np.arange(4) > 0
    _, masked = jk.learn(model, data, mask=keep, max_steps=2)
    _, expected = jk.learn(model, data.subset(keep), max_steps=2)
    np.testing.assert_allclose(masked.values, expected.values, rtol=1e-4)


def test_masks_do_not_compile_anew():
    traces = []

    class Counting(jk.likelihoods.AbstractLikelihood):
        def log_prob(self, outcome, score):
            traces.append(None)
            return jax.nn.log_sigmoid(outcome * score)

    model = jk.Model(jk.kernels.Constant(0.5), Counting())
    jk.infer(model, DATA, mask=np.arange(N) < 10)
    count = len(traces)
    jk.infer(model, DATA, mask=np.arange(N) < 20)
    jk.infer(model, DATA)
    assert len(traces) == count > 0


def test_swapping_sides_mirrors_the_answer():
    names = np.array(["ann", "bob", "cat", "dan", "eve"])
    swapped = jk.Dataset.from_pairs(TIMES, names[SECOND], names[FIRST], -OUTCOME)
    assert_same(fit(), fit(swapped))
    ours = fit().predict("ann", "bob", 3.0).probabilities
    mirrored = fit(swapped).predict("bob", "ann", 3.0).probabilities
    np.testing.assert_allclose(ours, mirrored[::-1], atol=1e-9)


def test_float32_is_close():
    exact, quick = fit(), jk.infer(MODEL, make_data(dtype="float32"), tol=1e-3)
    ours, theirs = (each.scores("ann", joint=False) for each in (exact, quick))
    assert quick.log_marginal_likelihood.dtype == np.float32
    np.testing.assert_allclose(theirs.mean, ours.mean, atol=2e-3)
    np.testing.assert_allclose(
        float(quick.log_marginal_likelihood), exact.log_marginal_likelihood, rtol=1e-5
    )


def test_two_against_two_converges_by_itself():
    count = 60
    data = jk.Dataset.from_pairs(
        np.zeros(count), [["a", "b"]] * count, [["c", "d"]] * count, np.ones(count)
    )
    model = jk.Model(jk.kernels.Constant(10.0), jk.likelihoods.Probit())
    assert jk.infer(model, data).converged


def test_failures_are_said():
    with pytest.raises(jk.InferenceError, match="did not converge in 2 steps: the est"):
        fit(max_steps=2)
    posterior = fit(max_steps=2, throw=False)
    assert jk.Status(int(posterior.status)) is jk.Status.MAX_STEPS
    assert not posterior.converged
    with pytest.raises(ValueError, match=r"`damping` is 1\.0\. It is the weight kept"):
        jk.ReverseKL(damping=1.0)
    with pytest.raises(ValueError, match="belongs to other data"):
        fit(make_data(slice(0, 5)), start=fit())
    with pytest.raises(ValueError, match="one boolean for each of the 40"):
        fit(mask=np.ones(3, bool))
    tied = make_data()
    tied = eqx.tree_at(lambda d: d.outcome, tied, tied.outcome.at[3].set(0.0))
    with pytest.raises(ValueError, match=r"^Row 3: outcome 0 is not valid for Probit"):
        fit(tied)
    with pytest.raises(ValueError, match="kernels for 'team' only"):
        jk.infer(jk.Model({"team": jk.kernels.Constant(1.0)}, MODEL.likelihood), DATA)


def test_a_warm_start_takes_fewer_steps_and_progress_is_reported():
    seen = []
    cold = fit(progress=lambda steps, distance: seen.append((int(steps), float(distance))))
    jax.effects_barrier()
    assert [steps for steps, _ in seen] == list(range(1, int(cold.steps) + 1))
    assert fit(start=cold).steps < cold.steps
