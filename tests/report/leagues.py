"""Small leagues that the tests of reports share."""

import functools

import numpy as np

import jaxkick as jk

HOSTILE = [
    "</script><script>hacked = 1</script>",
    '"><img src=x onerror="hacked=1">',
    "O'Neill & Söhne \u2028 \u202eabc",
    "<b>bold</b> %{x} {{data}} ${1}",
    "W" * 120,
    "Zoë",
]
NUM_MATCHES = 40


@functools.cache
def hostile_league() -> jk.Posterior:
    """Wins, ties and losses at home and on neutral ground; one side stops early."""
    rng = np.random.default_rng(3)
    pairs = np.array([rng.choice(6, 2, replace=False) for _ in range(NUM_MATCHES)])
    late = np.arange(NUM_MATCHES) > 12
    pairs[late] = np.where(pairs[late] == 5, (pairs[late][:, ::-1] + 1) % 5, pairs[late])
    matches = {
        "date": np.datetime64("2001-03-01") + np.sort(rng.integers(0, 2000, NUM_MATCHES)),
        "one": [HOSTILE[first] for first, _ in pairs],
        "two": [HOSTILE[second] for _, second in pairs],
        "result": rng.choice([-1.0, 0.0, 1.0], NUM_MATCHES),
        "ground": rng.choice([-1.0, 0.0, 1.0], NUM_MATCHES),
    }
    data = jk.Dataset.from_frame(
        matches, time="date", first="one", second="two", outcome="result", home="ground"
    )
    kernels = {
        "skill": jk.kernels.Matern12(0.8, lengthscale=1.5),
        "home": jk.kernels.Constant(0.2),
    }
    return jk.infer(jk.Model(kernels, jk.likelihoods.OrdinalProbit(margin=0.4)), data)


@functools.cache
def goals_league(
    one_state: bool = False, kind: type = jk.likelihoods.Poisson, *numbers: float
) -> jk.Posterior:
    """Two counts of every match, at numbered times, with a home advantage.

    Attack and defence are features of their own, or correlated aspects of one state.
    """
    method = jk.ExpectationPropagation() if numbers else jk.ReverseKL()
    rng = np.random.default_rng(4)
    teams = np.array(["ant", "bee", "cat"])
    pairs = np.array([rng.choice(3, 2, replace=False) for _ in range(30)])
    matches = {
        "time": np.linspace(0.0, 12.0, 30),
        "one": teams[pairs[:, 0]],
        "two": teams[pairs[:, 1]],
        "for": rng.poisson(1.8, 30),
        "against": rng.poisson(1.2, 30),
    }
    data = jk.Dataset.from_frame(
        matches,
        time="time",
        first="one",
        second="two",
        counts=("for", "against"),
        home=True,
        aspects=one_state,
    )
    kernel = jk.kernels.Matern12(0.1, lengthscale=5.0)
    roles = ("attack", "defence")
    kernels = {
        **(
            {"skill": jk.kernels.CorrelatedAspects(kernel, roles, 0.6)}
            if one_state
            else dict.fromkeys(roles, kernel)
        ),
        "level": jk.kernels.Constant(0.5),
        "home": jk.kernels.Constant(0.1),
    }
    return jk.infer(jk.Model(kernels, kind(*numbers)), data, method)
