"""`discover`: search for the kernels and the likelihood that explain the data best.

The search takes one group of features at a time, the groups of several features first. It expands
the structures with the highest scores to their neighbours (`grammar`), until the best ones have no
better neighbour. Each neighbour starts from the values of its parent and gets a few learning steps;
the best ones are learnt until convergence before they are expanded. Then come the priors of
newcomers. Likelihoods are compared last, by held-out log loss, because evidences of different
outcomes are not comparable.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxkick.data.dataset import Dataset
from jaxkick.discovery.grammar import (
    ASPECTS,
    NOTHING,
    WORDS,
    Form,
    Setting,
    find_seasons,
    neighbours,
    normal_form,
    prior_variance,
)
from jaxkick.discovery.journal import Entry, key_of, read_journal, write_journal
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
from jaxkick.io import Checkpoint
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
from jaxkick.newcomers import Newcomers
from jaxkick.parameters import AbstractParameter, Positive

__all__ = ["Discovery", "Structure", "discover"]

Structure = tuple[Form, ...]
"""The normal forms of all groups' kernels, and the kind of newcomers where there are any."""

# A first look at a candidate, which starts from its parent's values.
_FIRST_LOOK = {"max_steps": 12, "tol": 0.1}
_RIVALS = (
    (Probit, Logit),
    (OrdinalProbit, OrdinalLogit),
    (Poisson, NegativeBinomial),
    (Gaussian, Skellam, OrdinalProbit),
)
_TRAINING, _BLOCKS = 0.8, 8
# The priors of newcomers.
_NONE, _LASTING, _FADING = "no newcomers", "newcomers", "fading newcomers"


@dataclass
class _Search:
    """The state of a search, which `Discovery.resume` continues.

    Attributes:
        tried: the learnt candidates by structure.
        finished: structures that were learnt to the end.
        expanded: structures whose neighbours were tried, with the number of the group.
        parent: the structure whose neighbours are being tried.
        stage: the number of the group to search next, or the number of groups for newcomers; the
            number of stages when all are done.
        likelihoods: the comparison of likelihoods, once it was made.
        model: the best model, with the chosen likelihood.
        seconds: the time spent so far.
        journal: the results of all learning, also of an earlier search that this one continues.
    """

    tried: dict[Structure, LearntModel] = field(default_factory=dict)
    finished: set[Structure] = field(default_factory=set)
    expanded: set[tuple[Structure, int]] = field(default_factory=set)
    parent: Structure | None = None
    stage: int = 0
    likelihoods: ModelTable | None = None
    model: Model | None = None
    seconds: float = 0.0
    journal: dict[str, Entry] = field(default_factory=dict)


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
            journal=dict(state.journal),
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
    newcomers: dict[str, Newcomers]
    file: Checkpoint

    @property
    def stages(self) -> int:
        """The number of stages: one for each group, and one for newcomers if there are any."""
        return len(self.groups) + bool(self.newcomers)

    def structure(self, model: Model) -> Structure:
        forms = tuple(normal_form(model.kernel_of(group)) for group in self.groups)
        return (*forms, (_kind(model),)) if self.newcomers else forms

    def label(self, model: Model) -> str:
        """The structure as text; groups are named if there are several."""
        texts = [" + ".join(form) for form in self.structure(model)]
        if len(self.groups) > 1:
            named = [f"{group}: " for group in self.groups]
            texts[: len(named)] = [*map(str.__add__, named, texts)]
        return "; ".join(texts)

    def choice_cost(self, model: Model) -> float:
        """The negative log prior of a structure, up to a constant.

        All numbers of terms have the same probability, and so have all sums of one number.
        """
        counts = [sum(name in WORDS for name in form) for form in self.structure(model)]
        size = max(len(self.terms), 1)
        return sum(math.log(math.comb(size + count - 1, count)) for count in counts)

    def with_kernel(self, model: Model, group: str, kernel: AbstractKernel) -> Model:
        """Exchange the kernel of one group."""
        kernels = {each: model.kernel_of(each) for each in self.groups} | {group: kernel}
        single = not isinstance(model.kernel, dict)
        return replace(model, kernel=kernel if single else kernels)

    def neighbours(self, model: Model, stage: int) -> Iterator[list[Model]]:
        """Starting points of each structure that differs in one group, or in newcomers."""
        if stage == len(self.groups):
            yield from self._with_newcomers(model)
            return
        group = self.groups[stage]
        own = model.kernel_of(group)
        known = self.terms | set(normal_form(own)) | {NOTHING}
        for form, kernels in neighbours(own, self.settings[group]):
            if all(name in known or name.startswith(ASPECTS) for name in form):
                yield [self.with_kernel(model, group, kernel) for kernel in kernels]

    def _with_newcomers(self, model: Model) -> Iterator[list[Model]]:
        """Other priors of newcomers, with the learnt values of the present one."""
        single = not isinstance(model.kernel, dict)
        found: dict[str, dict[str, Newcomers]] = {_NONE: {}, _LASTING: {}, _FADING: {}}
        for group, suggested in self.newcomers.items():
            own = model.newcomers_of(group)
            own = suggested if own is None else own
            values = own.since, own.mean.value, own.variance_ratio.value
            fade = (suggested if own.fade is None else own).fade
            found[_LASTING][group] = Newcomers(*values)
            if fade is not None:
                found[_FADING][group] = Newcomers(*values, fade=fade.value)
        for kind, parts in found.items():
            if len(parts) in (0, len(self.newcomers)) and kind != _kind(model):
                newcomers = next(iter(parts.values()), None) if single else parts or None
                yield [replace(model, newcomers=newcomers)]


def _kind(model: Model) -> str:
    """The kind of the prior of a model's newcomers."""
    parts = jax.tree.leaves(model.newcomers, is_leaf=lambda node: isinstance(node, Newcomers))
    if not parts:
        return _NONE
    return _LASTING if all(part.fade is None for part in parts) else _FADING


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
    checkpoint: str | os.PathLike | None = None,
    progress: bool | Callable[[str], None] = False,
) -> Discovery:
    """Search for the kernels, and the likelihood, that explain the data best.

    Kernels are sums of a constant level (`Constant`), fluctuations (`Matern12`, `Matern32`,
    `Matern52`, the first two also beginning anew each season), a random walk (`Wiener`), a new
    level each season (`PiecewiseConstant`), a trend (`Linear`) and a cycle (`Cosine`, also
    fading). Each group of features has its own: skills first, then shared features such as the
    home advantage, which may drift.

    Candidates are ranked by their score: the log evidence minus a penalty for each parameter, as in
    `compare_models`, and minus the logarithm of the number of sums with as many terms. The latter
    corrects for the choice among many: by chance alone, the best of ten further terms gains more
    than a single one (Scott and Berger, 2010; Chen and Chen, 2008).

    The search starts from constants and from the model of `suggest_model`, so the result scores at
    least as high as the latter. It then tries the neighbours of the `beam` best candidates (with
    one term added, removed or replaced, or without aspects of competitors), until none is better.
    If `suggest_model` gives newcomers a prior of their own (`Newcomers`), it is then compared with
    one whose mean does not fade, and with none. All matches are used.

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
        checkpoint: a file that is written after each learnt model. If it exists, the search
            continues from it, in the same process or another one, with a new `budget`. All other
            arguments must be the same, which is checked. The comparison of likelihoods at the end
            is not kept.
        progress: `True` for lines on the error stream, or a function that is called with a text
            after each candidate.

    Returns:
        The candidates, the best model, and its description. Continue with `resume`.

    Raises:
        DataError: if an argument is not valid, no model can be learnt, or the checkpoint belongs
            to another search.
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
    parts = suggested.newcomers
    newcomers = {groups[0]: parts} if isinstance(parts, Newcomers) else dict(parts or {})
    given = [np.array([beam, cost, *ends]), np.array(sorted(chosen))]
    file = Checkpoint(
        checkpoint, eqx.filter((data.without_index(), starts, method, rivals), eqx.is_array), given
    )
    options = _Options(
        data=data,
        starts=tuple(starts),
        method=method,
        groups=groups,
        settings=settings,
        rivals=rivals,
        terms=frozenset(chosen),
        beam=beam,
        penalty=cost,
        newcomers=newcomers,
        file=file,
    )
    journal = read_journal(file)
    state = _Search(journal=journal, seconds=sum(entry.seconds for entry in journal.values()))
    return _run(options, state, budget, progress)


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
    while state.stage < options.stages:
        if not _search_stage(options, state, has_time, tell):
            break
        state.stage += 1
    best = _finished_best(options, state, tell)
    table = rank_rows(list(state.tried.values()), options.data)
    complete = state.stage == options.stages
    if state.likelihoods is None or state.model is None:
        state.model = best.model
    if complete and options.rivals and state.likelihoods is None:
        complete = has_time()
        if complete:
            state.likelihoods, state.model = _compare_likelihoods(options, best, tell)
    state.seconds += time.perf_counter() - began
    found = (options.data, table, state.likelihoods, state.model)
    return Discovery(*found, complete, state.seconds, state, options)  # pyright: ignore[reportArgumentType]


def _search_stage(
    options: _Options, state: _Search, has_time: Callable[[], bool], tell: Callable[[str], None]
) -> bool:
    """Expand the best structures in one group; return whether no better one is left."""
    while True:
        if state.parent is None:
            leaders = sorted(state.tried, key=lambda each: -_score(state.tried[each]))
            leaders = leaders[: options.beam]
            waiting = [each for each in leaders if (each, state.stage) not in state.expanded]
            if not waiting:
                return True
            if waiting[0] not in state.finished:
                known = key_of(state.tried[waiting[0]].model, {}) in state.journal
                if not (known or has_time()):
                    return False
                # Its place may change: look again.
                _finish(options, state, waiting[0], tell)
                continue
            state.parent = waiting[0]
        for models in options.neighbours(state.tried[state.parent].model, state.stage):
            if options.structure(models[0]) in state.tried:
                continue
            known = key_of(models[0], _first_limits(models)) in state.journal
            if not (known or has_time()):
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
    looks = [_learn(options, state, each, **_first_limits(models)) for each in models]
    row = max(looks, key=_score)
    if len(looks) > 1:
        row = _learn(options, state, row.model, **_FIRST_LOOK)
        row = replace(row, seconds=row.seconds + sum(look.seconds for look in looks))
    state.tried[options.structure(models[0])] = row
    tell(_line(row))


def _first_limits(models: list[Model]) -> dict[str, Any]:
    """Several starting points are only evaluated at first."""
    return _FIRST_LOOK if len(models) == 1 else {"max_steps": 0}


def _finish(
    options: _Options, state: _Search, structure: Structure, tell: Callable[[str], None]
) -> None:
    """Learn a structure until convergence."""
    before = state.tried[structure]
    row = _learn(options, state, before.model)
    state.finished.add(structure)
    if _score(row) >= _score(before):
        state.tried[structure] = replace(row, seconds=row.seconds + before.seconds)
    tell(f"{_line(state.tried[structure])}, learnt to the end")


def _learn(options: _Options, state: _Search, model: Model, **limits: Any) -> LearntModel:
    """Learn a model, or find it in the journal."""
    name, key = options.label(model), key_of(model, limits)
    if key in state.journal:
        return state.journal[key].to_row(name, model)
    row = learn_model(name, model, options.data, options.method, options.penalty, **limits)
    row = replace(row, score=row.score - options.choice_cost(model))
    state.journal[key] = Entry.of(row)
    write_journal(options.file, state.journal)
    return row


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
