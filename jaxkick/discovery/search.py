"""`discover`: search for the kernels and the likelihood that explain the data best.

The search takes one group of features at a time, the groups of several features first. It expands
the structures with the highest scores to their neighbours (`grammar`), until the best ones have no
better neighbour. Each neighbour starts from the values of its parent and gets a few learning steps;
the best ones are learnt until convergence before they are expanded. Likelihoods are compared last,
by held-out log loss, because evidences of different outcomes are not comparable.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxkick.data.dataset import Dataset
from jaxkick.discovery.grammar import (
    NOTHING,
    WORDS,
    Form,
    Setting,
    find_seasons,
    neighbours,
    normal_form,
    prior_variance,
)
from jaxkick.discovery.model_comparison import (
    LearntModel,
    ModelTable,
    compare_models,
    learn_model,
    nats_per_parameter,
    rank_rows,
    write_line,
)
from jaxkick.discovery.words import describe
from jaxkick.errors import DataError, invalid
from jaxkick.evaluation.backtest import Period, split_time
from jaxkick.inference.methods import AbstractMethod
from jaxkick.kernels import AbstractKernel, Constant
from jaxkick.learning.suggest import suggest_model
from jaxkick.likelihoods import (
    AbstractLikelihood,
    Gaussian,
    Logit,
    NegativeBinomial,
    OrdinalLogit,
    OrdinalProbit,
    Poisson,
    Probit,
    Skellam,
)
from jaxkick.model import Model
from jaxkick.parameters import AbstractParameter, Positive

__all__ = ["Discovery", "Structure", "discover"]

Structure = tuple[Form, ...]
"""The normal forms of all groups' kernels."""

# A first look at a candidate, which starts from its parent's values.
_FIRST_STEPS, _FIRST_TOL = 12, 0.1
_RIVALS = (
    (Probit, Logit),
    (OrdinalProbit, OrdinalLogit),
    (Poisson, NegativeBinomial),
    (Gaussian, Skellam, OrdinalProbit),
)
_TRAINING, _BLOCKS = 0.8, 8


@dataclass
class _Search:
    """The state of a search, which `Discovery.resume` continues.

    Attributes:
        tried: the learnt candidates by structure.
        finished: structures that were learnt to the end.
        expanded: structures whose neighbours were tried, with the number of the group.
        parent: the structure whose neighbours are being tried.
        stage: the number of the group to search next; the number of groups when all are done.
        likelihoods: the comparison of likelihoods, once it was made.
        model: the best model, with the chosen likelihood.
        seconds: the time spent so far.
    """

    tried: dict[Structure, LearntModel] = field(default_factory=dict)
    finished: set[Structure] = field(default_factory=set)
    expanded: set[tuple[Structure, int]] = field(default_factory=set)
    parent: Structure | None = None
    stage: int = 0
    likelihoods: ModelTable | None = None
    model: Model | None = None
    seconds: float = 0.0


@dataclass(frozen=True, repr=False)
class Discovery:
    """The result of `discover`: ranked candidates, the best model, and its description.

    Attributes:
        data: the matches.
        table: all candidates with the likelihood of the search, the best first. Candidates far
            behind the best got only a few learning steps.
        likelihoods: the comparison of likelihoods by held-out log loss, or `None`.
        model: the best model with learnt parameters, ready for `infer`.
        complete: whether the search ended before its budget did.
        seconds: the time it took.
    """

    data: Dataset
    table: ModelTable
    likelihoods: ModelTable | None
    model: Model
    complete: bool
    seconds: float
    _state: _Search
    _options: "_Options"

    def resume(
        self, budget: float, *, progress: bool | Callable[[str], None] = False
    ) -> "Discovery":
        """Continue the search with more time.

        Args:
            budget: further seconds, as in `discover`.
            progress: as in `discover`.

        Returns:
            The new result; this one does not change.
        """
        state = self._state
        copied = replace(
            state,
            tried=dict(state.tried),
            finished=set(state.finished),
            expanded=set(state.expanded),
        )
        return _run(self._options, copied, budget, progress)

    def describe(self) -> str:
        """Describe the best model and the rejected alternatives in plain sentences.

        Times are in the data's unit. Shares of the variance refer to the prior variance of a
        score, averaged over the times of all matches.
        """
        return describe(self)

    def __repr__(self) -> str:
        end = "" if self.complete else ", stopped at its budget"
        title = f"Discovery({len(self.table)} candidates in {self.seconds:.0f} s{end})"
        return f"{title}\n{self.table!r}"


@dataclass(frozen=True)
class _Options:
    """The arguments of a search, and values derived from them."""

    data: Dataset
    starts: tuple[Model, ...]
    method: AbstractMethod | None
    groups: tuple[str, ...]
    settings: dict[str, Setting]
    rivals: tuple[AbstractLikelihood, ...]
    terms: frozenset[str]
    beam: int
    penalty: float

    def structure(self, model: Model) -> Structure:
        return tuple(normal_form(model.kernel_of(group)) for group in self.groups)

    def label(self, model: Model) -> str:
        """The structure as text; groups are named if there are several."""
        texts = [" + ".join(form) for form in self.structure(model)]
        if len(texts) == 1:
            return texts[0]
        pairs = zip(self.groups, texts, strict=True)
        return "; ".join(f"{group}: {text}" for group, text in pairs)

    def with_kernel(self, model: Model, group: str, kernel: AbstractKernel) -> Model:
        """Exchange the kernel of one group."""
        kernels = {each: model.kernel_of(each) for each in self.groups} | {group: kernel}
        single = not isinstance(model.kernel, dict)
        return replace(model, kernel=kernel if single else kernels)


def discover(
    data: Dataset,
    likelihood: AbstractLikelihood | type[AbstractLikelihood] | None = None,
    budget: float = 300.0,
    method: AbstractMethod | None = None,
    *,
    beam: int = 2,
    penalty: float | None = None,
    seasons: Iterable[Any] | None = None,
    terms: Iterable[str] | None = None,
    progress: bool | Callable[[str], None] = False,
) -> Discovery:
    """Search for the kernels, and the likelihood, that explain the data best.

    Kernels are sums of a constant level (`Constant`), fluctuations (`Matern12`, `Matern32`,
    `Matern52`, the first two also beginning anew each season), a random walk (`Wiener`), a new
    level each season (`PiecewiseConstant`), a trend (`Linear`) and a cycle (`Cosine`, also
    fading). Each group of features has its own: skills first, then shared features such as the
    home advantage, which may drift.

    Candidates are ranked by their score: the log evidence minus a penalty for each parameter,
    as in `compare_models`. The search starts from constants and from the model of `suggest_model`,
    so the result scores at least as high as the latter. It then tries the neighbours of the `beam`
    best candidates (with one term added, removed or replaced), until none is better. All matches
    are used.

    Without a `likelihood`, that of `suggest_model` is then compared with related ones (such as
    `Logit` for `Probit`) by the log loss of the last fifth of the matches. It is replaced only if
    the paired interval of the difference excludes zero. All likelihoods use the same kernels,
    which were chosen with all matches.

    Args:
        data: the matches.
        likelihood: the likelihood, or its class; if `None`, it is chosen as described.
        budget: time in seconds after which no new candidate is tried. The first two are always
            tried, and the best one is always learnt until convergence. Most of the time goes into
            compilation; `enable_compilation_cache` keeps its results.
        method: the inference method; `ExpectationPropagation()` if `None`.
        beam: number of best candidates whose neighbours are tried.
        penalty: the penalty for a parameter in nats, as in `compare_models`.
        seasons: the times at which new seasons begin, as in the data; if `None`, breaks of each
            year with hardly any match, for data with a unit of time.
        terms: the terms to search, such as `["Constant", "Matern12", "Cosine*Matern12"]`; all of
            them if `None`.
        progress: `True` for lines on the error stream, or a function that is called with a text
            after each candidate.

    Returns:
        The candidates, the best model, and its description. Continue with `resume`.

    Raises:
        DataError: if an argument is not valid, or no model can be learnt.
    """
    if not isinstance(data, Dataset):
        raise TypeError(f"`data` must be a `Dataset`, not {type(data).__name__}.")
    for name, value in {"budget": budget, "beam": beam}.items():
        if not value > 0:
            raise invalid(name, value, "but must be positive")
    chosen = set(WORDS) if terms is None else set(terms)
    if not chosen <= set(WORDS):
        raise DataError(
            "{argument} has {value}, which is not a term of the search",
            f"The terms are {', '.join(map(repr, WORDS))}.",
            argument="terms",
            value=min(chosen - set(WORDS)),
        )
    suggested = suggest_model(data, likelihood)
    if seasons is None:
        ends = find_seasons(data)
    else:
        ends = tuple(map(float, np.atleast_1d(data.index.to_time(list(seasons), "seasons"))))
    sizes = {
        group: int(data.index.counts[data.index.feature_group == place].sum())
        * (1 if np.sum(data.index.feature_group == place) > 1 else 0)
        for place, group in enumerate(data.index.groups)
    }
    groups = tuple(sorted(sizes, key=lambda group: -sizes[group]))
    settings = {group: Setting.of(data, group, ends) for group in groups}
    kernels = {group: _simplest(suggested.kernel_of(group), settings[group]) for group in groups}
    single = not isinstance(suggested.kernel, dict)
    starts = [replace(suggested, kernel=kernels[groups[0]] if single else kernels)]
    used = {name for group in groups for name in normal_form(suggested.kernel_of(group))}
    if terms is None or used <= chosen:
        starts.append(suggested)
    rivals = () if likelihood is not None else tuple(_rivals(data, suggested.likelihood))
    cost = nats_per_parameter(data, penalty)
    options = _Options(
        data, tuple(starts), method, groups, settings, rivals, frozenset(chosen), beam, cost
    )
    return _run(options, _Search(), budget, progress)


def _simplest(kernel: AbstractKernel, setting: Setting) -> AbstractKernel:
    """A constant of the same prior variance; the kernel itself if it has aspects."""
    return kernel if kernel.aspects else Constant(prior_variance(kernel, setting))


def _run(
    options: _Options, state: _Search, budget: float, progress: bool | Callable[[str], None]
) -> Discovery:
    tell = progress if callable(progress) else write_line if progress else lambda text: None
    began = time.perf_counter()

    def has_time() -> bool:
        return time.perf_counter() - began < budget

    if not state.tried:
        for model in options.starts:
            _try(options, state, [model], tell)
    while state.stage < len(options.groups):
        if not _search_group(options, state, has_time, tell):
            break
        state.stage += 1
    best = _finished_best(options, state, tell)
    table = rank_rows(list(state.tried.values()), options.data)
    complete = state.stage == len(options.groups)
    if state.likelihoods is None or state.model is None:
        state.model = best.model
    if complete and options.rivals and state.likelihoods is None:
        complete = has_time()
        if complete:
            state.likelihoods, state.model = _compare_likelihoods(options, best, tell)
    state.seconds += time.perf_counter() - began
    found = (options.data, table, state.likelihoods, state.model)
    return Discovery(*found, complete, state.seconds, state, options)  # pyright: ignore[reportArgumentType]


def _search_group(
    options: _Options, state: _Search, has_time: Callable[[], bool], tell: Callable[[str], None]
) -> bool:
    """Expand the best structures in one group; return whether no better one is left."""
    group = options.groups[state.stage]
    while True:
        if state.parent is None:
            leaders = sorted(state.tried, key=lambda each: -_score(state.tried[each]))
            leaders = leaders[: options.beam]
            waiting = [each for each in leaders if (each, state.stage) not in state.expanded]
            if not waiting:
                return True
            if waiting[0] not in state.finished:
                if not has_time():
                    return False
                # Its place may change: look again.
                _finish(options, state, waiting[0], tell)
                continue
            state.parent = waiting[0]
        model = state.tried[state.parent].model
        own = set(normal_form(model.kernel_of(group)))
        for form, kernels in neighbours(model.kernel_of(group), options.settings[group]):
            if not set(form) <= options.terms | own | {NOTHING}:
                continue
            models = [options.with_kernel(model, group, each) for each in kernels]
            if options.structure(models[0]) in state.tried:
                continue
            if not has_time():
                return False
            _try(options, state, models, tell)
        state.expanded.add((state.parent, state.stage))
        state.parent = None


def _score(row: LearntModel) -> float:
    return row.score if math.isfinite(row.score) else -math.inf


def _try(
    options: _Options, state: _Search, models: list[Model], tell: Callable[[str], None]
) -> None:
    """Have a first look at a structure, from the best of its starting points."""
    began = time.perf_counter()
    start = models[0]
    if len(models) > 1:
        start = max((_learn(options, model, max_steps=0) for model in models), key=_score).model
    row = _learn(options, start, max_steps=_FIRST_STEPS, tol=_FIRST_TOL)
    row = replace(row, seconds=time.perf_counter() - began)
    state.tried[options.structure(models[0])] = row
    tell(_line(row))


def _finish(
    options: _Options, state: _Search, structure: Structure, tell: Callable[[str], None]
) -> None:
    """Learn a structure until convergence."""
    before = state.tried[structure]
    row = _learn(options, before.model)
    state.finished.add(structure)
    if _score(row) >= _score(before):
        state.tried[structure] = replace(row, seconds=row.seconds + before.seconds)
    tell(f"{_line(state.tried[structure])}, learnt to the end")


def _learn(options: _Options, model: Model, **limits: Any) -> LearntModel:
    name = options.label(model)
    return learn_model(name, model, options.data, options.method, options.penalty, **limits)


def _line(row: LearntModel) -> str:
    text = f"score {row.score:.2f}, log evidence {row.log_evidence:.2f}"
    return f"{row.name}: {text if not row.failed else row.note} ({row.seconds:.1f} s)"


def _finished_best(options: _Options, state: _Search, tell: Callable[[str], None]) -> LearntModel:
    """Learn the best structure until convergence, and every one that overtakes it."""
    while True:
        best = max(state.tried, key=lambda each: _score(state.tried[each]))
        if state.tried[best].failed:
            raise DataError(f"No model could be learnt ({state.tried[best].note})")
        if best in state.finished:
            return state.tried[best]
        _finish(options, state, best, tell)


def _rivals(
    data: Dataset, likelihood: AbstractLikelihood | Mapping[str, AbstractLikelihood]
) -> Iterator[AbstractLikelihood]:
    """Other likelihoods of the same outcomes, with starting values."""
    if isinstance(likelihood, Mapping) or likelihood.num_predictors != 1:
        return
    outcome = data.observations.outcome
    family = next((each for each in _RIVALS if isinstance(likelihood, each)), ())
    for kind in family:
        if not isinstance(likelihood, kind):
            other = kind.from_outcomes(outcome)
            if not np.any(other.check(outcome)):
                yield other


def _compare_likelihoods(
    options: _Options, best: LearntModel, tell: Callable[[str], None]
) -> tuple[ModelTable, Model]:
    """Backtest the best structure with each likelihood; return the table and the winner."""
    data, model, outcome = options.data, best.model, options.data.observations.outcome
    likelihood: Any = model.likelihood
    size = likelihood.score_variance(outcome)
    models = {type(model.likelihood).__name__: model}
    for other in options.rivals:
        kernel = _scaled(model.kernel, other.score_variance(outcome) / size)
        models[type(other).__name__] = replace(model, kernel=kernel, likelihood=other)
    start = split_time(data, _TRAINING)
    table = compare_models(
        models,
        data,
        options.method,
        start=start,
        every=_blocks(data, start),
        penalty=options.penalty,
        progress=lambda text: tell(f"likelihood {text}"),
    )
    own = table[type(model.likelihood).__name__]
    winner = table.rows[0]
    if winner is own or winner.failed or own.failed:
        return table, model
    # `own.difference` is its log loss minus that of the winner.
    clear = own.difference is not None and own.difference.lower > 0
    return table, winner.model if clear else model


def _scaled(kernel: Any, factor: float) -> Any:
    """Multiply all variances of kernels by a factor."""

    def scale(path: tuple, node: Any) -> Any:
        named = jax.tree_util.keystr(path).endswith("variance")
        if not (named and isinstance(node, Positive)):
            return node
        return eqx.tree_at(lambda each: each.log_value, node, node.log_value + math.log(factor))

    return jax.tree_util.tree_map_with_path(
        scale, kernel, is_leaf=lambda node: isinstance(node, AbstractParameter)
    )


def _blocks(data: Dataset, start: Any) -> Period:
    """Divide the matches from `start` on into a few blocks of about equal size."""
    times = np.sort(data.index.times)
    tested = times[times >= float(data.index.to_time(start, "start"))]
    edges = np.unique(tested[np.linspace(0, len(tested), _BLOCKS, endpoint=False).astype(int)])
    ends = data.index.scale.to_user(edges)
    return lambda every: np.searchsorted(ends, every, side="right")
