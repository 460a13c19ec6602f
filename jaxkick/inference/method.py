"""What an inference method is: a map from sites to better sites, and an evidence."""

import abc
from typing import NamedTuple

import equinox as eqx

from jaxkick._typing import Scalar
from jaxkick.inference.problem import Problem, ScoreMoments, Sites
from jaxkick.statespace.smoother import Smoothed

__all__ = ["AbstractMethod", "Proposal", "check_damping"]


class Proposal(NamedTuple):
    """What a method makes of the present sites.

    Attributes:
        sites: the undamped update of all sites.
        observed: what the observations add to the evidence under the present sites.
    """

    sites: Sites
    observed: Scalar


class AbstractMethod(eqx.Module):
    """A way to approximate the posterior (paper, section 3.1 and appendix A)."""

    damping: eqx.AbstractVar[float]

    @abc.abstractmethod
    def propose(self, problem: Problem, sites: Sites, smoothed: tuple[Smoothed, ...]) -> Proposal:
        """Evaluate the method once.

        Args:
            problem: model and data.
            sites: the present sites.
            smoothed: the cavities under these sites.

        Returns:
            The undamped update of all sites, and what the observations add to the evidence.
        """

    @abc.abstractmethod
    def observed(
        self, problem: Problem, cavities: tuple[ScoreMoments, ...], sites: Sites
    ) -> Scalar:
        """What the observations add to the evidence: a sum over their likelihoods.

        The same as `propose` returns beside the sites; the evidence takes its value from there
        and its derivative from here.
        """

    @abc.abstractmethod
    def pretended(self, cavities: tuple[ScoreMoments, ...], sites: Sites) -> Scalar:
        """What the sites pretend to add, and what is taken off again: a sum over entries."""


def check_damping(damping: float) -> None:
    """Refuse a damping that would never move, or move backwards."""
    if not 0.0 <= damping < 1.0:
        raise ValueError(
            "`damping` is the weight kept on the old sites: it must be at least 0 and below 1, "
            f"not {damping}."
        )
