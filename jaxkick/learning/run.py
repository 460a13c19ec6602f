"""Several climbs side by side, from their starts to the end of the last."""

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxkick.inference.ending import InferenceError
from jaxkick.inference.problem import Sites
from jaxkick.learning.checkpoint import fingerprint, load, save
from jaxkick.learning.climb import AbstractOptimiser, Climber, Status
from jaxkick.learning.free import named_values
from jaxkick.learning.history import History
from jaxkick.learning.line_search import inner
from jaxkick.learning.objective import Evaluation, Objective

__all__ = ["Limits", "Run"]

# What inference holds of an entry: the acceleration's memory and some twenty arrays.
_BYTES_PER_ENTRY = 600


class Limits(NamedTuple):
    """When a climb ends; see `learn`."""

    max_steps: int
    tol: float
    patience: int


class _Climb(NamedTuple):
    """A climber and the rows of its history."""

    climber: Climber
    rows: dict[str, Any]

    @property
    def steps(self) -> int:
        return len(self.rows["values"]) - 1

    @property
    def running(self) -> bool:
        return int(self.climber.status) == Status.RUNNING


@dataclass
class Run:
    """A run of `learn`.

    Attributes:
        objective: what is descended.
        optimiser: how.
        starts: where each climb starts, the user's own start first.
        limits: when climbs end.
        checkpoint: the file to keep, if any.
        together: how many points are evaluated at once; chosen from the device if `None`.
        report: called after every round with the number of steps and the best value.
    """

    objective: Objective
    optimiser: AbstractOptimiser
    starts: list[PyTree]
    limits: Limits
    checkpoint: Path | None
    together: int | None
    report: Callable[[int, float], None] | None

    def to_end(self) -> tuple[PyTree, History]:
        """Climb until every climb has ended.

        Returns:
            The best point of all, and the history of the climb that found it.

        Raises:
            InferenceError: if inference fails at the user's own start.
        """
        began = time.perf_counter()
        climbs = self._resume()
        if climbs is None:
            climbs = self._begin(began)
        else:
            began -= max(float(climb.rows["seconds"][-1]) for climb in climbs)
        while chosen := [n for n, climb in enumerate(climbs) if self._goes_on(climb)]:
            generators = [
                self.optimiser.step(climbs[n].climber, self.objective, self.limits.tol)
                for n in chosen
            ]
            sites = [climbs[n].climber.evaluation.sites for n in chosen]
            for n, climber in zip(chosen, self._together(generators, sites), strict=True):
                climbs[n] = self._following(climbs[n], climber, began)
            self._after_round(climbs)
        return _conclude(climbs)

    def _following(self, climb: _Climb, climber: Climber, began: float) -> _Climb:
        if climber.point is climb.climber.point and int(climber.status) != Status.RUNNING:
            return climb._replace(climber=climber)
        climber = climber.watched(self.limits.tol, self.limits.patience)
        return _Climb(climber, self._row(climber, began, climb.rows))

    def _begin(self, began: float) -> list[_Climb]:
        nothing = self.objective.no_sites(self.starts[0])
        generators = [self._first_step(start) for start in self.starts]
        climbers = self._together(generators, [nothing] * len(generators))
        if int(climbers[0].status) == Status.FAILED:
            raise InferenceError(
                "inference fails at the starting values, or its gradient is not finite, so that "
                "there is nothing to follow; look at `infer(model, data)` and `log_prior`, or "
                "leave the model out to have one suggested."
            )
        return [_Climb(climber, self._row(climber, began)) for climber in climbers]

    def _first_step(self, start: PyTree) -> Generator[PyTree, Evaluation, Climber]:
        evaluation = yield start
        failed = not np.isfinite(evaluation.loss)
        return self._climber(start, evaluation, Status.FAILED if failed else Status.RUNNING)

    def _climber(self, start: PyTree, evaluation: Evaluation, status: Status) -> Climber:
        return Climber(
            point=start,
            evaluation=evaluation,
            memory=self.optimiser.init(start),
            best_point=start,
            best_loss=evaluation.loss,
            reference_loss=evaluation.loss,
            waited=np.asarray(0),
            status=np.asarray(int(status)),
        )

    def _goes_on(self, climb: _Climb) -> bool:
        return climb.running and climb.steps < self.limits.max_steps

    def _together(
        self, generators: list[Generator[PyTree, Evaluation, Climber]], sites: list[Sites]
    ) -> list[Climber]:
        """Run generators to their ends, evaluating what they ask for in common."""
        results: list[Climber | None] = [None] * len(generators)
        answers: dict[int, Evaluation | None] = dict.fromkeys(range(len(generators)))
        while answers:
            asked = {}
            for n, answer in answers.items():
                try:
                    asked[n] = generators[n].send(answer)
                except StopIteration as end:
                    results[n] = end.value
            evaluations = self._evaluate(list(asked.values()), [sites[n] for n in asked])
            answers = dict(zip(asked, evaluations, strict=True))
        return [result for result in results if result is not None]

    def _evaluate(self, points: list[PyTree], sites: list[Sites]) -> list[Evaluation]:
        width = min(len(self.starts), self._width)
        if width == 1:
            pairs = zip(points, sites, strict=True)
            return [self.objective.evaluate(*pair) for pair in pairs]
        evaluations = []
        for begin in range(0, len(points), width):
            batch = list(zip(points, sites, strict=True))[begin : begin + width]
            # Batches of one size, so that one program serves all of them.
            full = batch + [batch[-1]] * (width - len(batch))
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *full)
            answer = self.objective.evaluate_many(*stacked)
            evaluations += [
                jax.tree.map(lambda leaf, n=n: leaf[n], answer) for n in range(len(batch))
            ]
        return evaluations

    @cached_property
    def _width(self) -> int:
        """How many points are evaluated at once."""
        if self.together is not None:
            return self.together
        data = self.objective.data
        device = next(iter(data.outcome.addressable_shards)).device
        limit = (device.memory_stats() or {}).get("bytes_limit")
        if device.platform == "cpu" or limit is None:
            return 1
        entries = sum(chain.gap.size for chain in data.chains)
        return max(1, limit // (2 * _BYTES_PER_ENTRY * entries))

    def _row(self, climber: Climber, began: float, rows: dict | None = None) -> dict:
        """The rows of a history with one more at their end."""
        now = climber.evaluation
        row = {
            "values": -np.asarray(now.loss, float),
            "gradient_norms": np.sqrt(inner(now.gradient, now.gradient)),
            "seconds": np.asarray(time.perf_counter() - began),
            "inference_steps": np.asarray(now.steps),
            "parameters": named_values(self.objective.frame.fill(climber.point)),
        }
        row = jax.tree.map(lambda value: np.asarray(value)[None], row)
        return row if rows is None else jax.tree.map(lambda *a: np.concatenate(a), rows, row)

    def _after_round(self, climbs: list[_Climb]) -> None:
        if self.checkpoint is not None:
            save(self.checkpoint, self._mark, climbs)
        if self.report is not None:
            best = min(float(climb.climber.best_loss) for climb in climbs)
            self.report(max(climb.steps for climb in climbs), -best)

    def _resume(self) -> list[_Climb] | None:
        if self.checkpoint is None:
            return None
        nothing = self.objective.no_sites(self.starts[0])
        like = []
        for start in self.starts:
            zero = np.asarray(0.0)
            climber = self._climber(start, Evaluation(zero, start, nothing, zero), Status.RUNNING)
            like.append(_Climb(climber, self._row(climber, 0.0)))
        found = load(self.checkpoint, self._mark, like)
        if found is None:
            return None
        return [_Climb(jax.tree.map(jnp.asarray, climb.climber), climb.rows) for climb in found]

    @cached_property
    def _mark(self) -> str:
        objective = self.objective
        settings = [objective.settings.tol, self.limits.tol, self.limits.patience]
        kind = str(jax.tree.structure(self.optimiser.init(self.starts[0])))
        models = [objective.model(start) for start in self.starts]
        priors = [objective.prior(start) for start in self.starts]
        return fingerprint(
            eqx.filter(models, eqx.is_array),
            priors,
            self.starts,
            objective.data,
            objective.method,
            objective.active,
            settings,
            np.array(kind),
        )


def _conclude(climbs: list[_Climb]) -> tuple[PyTree, History]:
    values = np.array([-float(climb.climber.best_loss) for climb in climbs])
    best = climbs[int(np.argmax(values))]
    converged = int(best.climber.status) in (Status.CONVERGED, Status.STALLED)
    return best.climber.best_point, History(**best.rows, converged=converged, climbs=values)
