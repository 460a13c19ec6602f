"""The same problem in kickscore 0.2.0, the paper's own software."""

import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import numpy as np

from tests.reference.covariance import Covariance
from tests.reference.problem import SmallProblem

__all__ = ["KickscoreFit", "kickscore_fit"]


@dataclass(frozen=True)
class KickscoreFit:
    """A fit of kickscore: times, means and variances by feature, and its log-likelihood."""

    scores: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    log_likelihood: float
    converged: bool
    model: Any

    def predict(self, feature: str, times) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of a feature at any times."""
        return self.model.item[feature].predict(np.atleast_1d(np.asarray(times, float)))


def _kernel(kickscore: ModuleType, covariance: Covariance) -> Any:
    kernels, p = kickscore.kernel, covariance.parameters
    if covariance.name == "sum":
        first, second = (_kernel(kickscore, part) for part in covariance.parts)
        return first + second
    makers = {
        "constant": lambda: kernels.Constant(p["variance"]),
        "piecewise_constant": lambda: kernels.PiecewiseConstant(
            p["variance"], np.array(p["bounds"])
        ),
        "wiener": lambda: kernels.Wiener(p["variance"], p["origin"], p["origin_variance"]),
        "affine": lambda: kernels.Affine(p["offset_variance"], p["slope_variance"], p["origin"]),
        "matern12": lambda: kernels.Exponential(p["variance"], p["lengthscale"]),
        "matern32": lambda: kernels.Matern32(p["variance"], p["lengthscale"]),
        "matern52": lambda: kernels.Matern52(p["variance"], p["lengthscale"]),
    }
    if covariance.name not in makers:
        raise ValueError(f"kickscore has no {covariance.name} kernel for a recursive fit.")
    return makers[covariance.name]()


def _model(kickscore: ModuleType, problem: SmallProblem) -> Any:
    name, parameters = problem.likelihood.name, problem.likelihood.parameters
    if name in ("probit", "logit"):
        return kickscore.BinaryModel(obs_type=name)
    if name in ("ordinal_probit", "ordinal_logit") and "margin" in parameters:
        link = name.removeprefix("ordinal_")
        return kickscore.TernaryModel(margin=parameters["margin"], obs_type=link)
    if name == "gaussian":
        return kickscore.DifferenceModel(var=parameters["variance"])
    if name == "poisson":
        return kickscore.CountModel()
    if name == "skellam":
        return kickscore.CountDiffModel(base_rate=parameters["base_rate"])
    raise ValueError(f"kickscore has no {name} likelihood with {sorted(parameters)}.")


def _observe(model: Any, name: str, features: dict[str, float], y: float, t: float) -> None:
    if name in ("probit", "logit", "ordinal_probit", "ordinal_logit"):
        # The winners come first; a tie has no order.
        features = {key: -x if y < 0 else x for key, x in features.items()}
        extra = {"tie": y == 0} if name.startswith("ordinal") else {}
        model.observe(features, {}, t=t, **extra)
    elif name == "poisson":
        model.observe(features, {}, count=int(y), t=t)
    else:
        diff = y if name == "gaussian" else int(y)
        model.observe(features, {}, diff=diff, t=t)


def kickscore_fit(
    problem: SmallProblem,
    method: Literal["ep", "kl"] = "ep",
    damping: float = 0.0,
    tol: float = 1e-13,
    max_steps: int = 500,
) -> KickscoreFit:
    """Fit a problem with kickscore, far beyond its default tolerance.

    Args:
        problem: with a named likelihood and named covariances that kickscore has, unweighted.
        method: "ep" or "kl".
        damping: weight kept on the old sites (kickscore's `lr` is 1 − damping).
        tol: largest change of a log-partition (or expected log-likelihood) at the end.
        max_steps: after which to stop; rounding may keep the changes just above `tol`.
    """
    if np.any(problem.weights != 1.0):
        raise ValueError("kickscore has no weights.")
    with warnings.catch_warnings():
        # Numba warns of features of its own that kickscore uses.
        warnings.simplefilter("ignore")
        import kickscore

        model = _model(kickscore, problem)
        for feature in problem.observed:
            model.add_item(feature, kernel=_kernel(kickscore, problem.covariances[feature]))
        for n in np.argsort(problem.times, kind="stable"):
            _observe(
                model,
                problem.likelihood.name,
                dict(problem.features[n]),
                float(problem.outcomes[n]),
                float(problem.times[n]),
            )
        converged = model.fit(method=method, lr=1.0 - damping, tol=tol, max_iter=max_steps)
        scores = {feature: model.item[feature].scores for feature in problem.observed}
        return KickscoreFit(scores, float(model.log_likelihood), converged, model)
