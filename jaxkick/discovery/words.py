"""The result of a search in plain sentences."""

from collections import Counter
from typing import TYPE_CHECKING

from jaxkick.discovery.grammar import ASPECTS, NOTHING, WORDS, Form, normal_form, prior_variance
from jaxkick.discovery.model_comparison import LearntModel
from jaxkick.posterior.components import terms_of

if TYPE_CHECKING:
    from jaxkick.discovery.search import Discovery, Structure

__all__ = ["describe"]

# Smaller shares of the variance are shown as "less than 1 %".
_SMALL = 0.005
# Smaller changes are weak evidence: odds of 20 to 1, for one of several terms tried.
_WEAK = 3.0


def describe(found: "Discovery") -> str:
    """Write the sentences of `Discovery.describe`, one paragraph for each group of features."""
    options, tried = found._options, found._state.tried
    best = found.table.best
    structure = options.structure(best.model)
    paragraphs = []
    for place, group in enumerate(options.groups):
        # Later groups were not yet searched when the neighbours of this one were tried.
        alike = [each for each in tried if each[: place + 1] == structure[: place + 1]]
        then = max(alike, key=lambda each, p=place: len(_relatives(tried, each, p)))
        sentences = [_parts(found, group), *_evidence(tried, then, place)]
        paragraphs.append(" ".join(sentences))
    if options.newcomers:
        paragraphs.append(_newcomers(found))
    paragraphs.append(_outcomes(found))
    if not found.complete:
        paragraphs.append(
            f"The search stopped at its budget after {len(tried):,} candidates: others may be "
            "better."
        )
    return "\n".join(paragraphs)


def _parts(found: "Discovery", group: str) -> str:
    """The terms of a kernel with their shares of the variance, in the kernels' own words."""
    setting = found._options.settings[group]
    terms = terms_of(found.model.kernel_of(group))
    if normal_form(terms[0]) == (NOTHING,):
        return f"{_title(group)} has no effect."
    unit = found.data.index.unit
    sizes = [prior_variance(term, setting) for term in terms]
    ordered = sorted(zip(sizes, terms, strict=True), key=lambda pair: -pair[0])
    texts = []
    for size, term in ordered:
        share = size / sum(sizes)
        shown = f"{100 * share:.0f} %" if share >= _SMALL else "less than 1 %"
        text = term.describe(unit)
        texts.append(text if len(terms) == 1 else f"{text} ({shown} of the variance)")
    if len(texts) == 1:
        return f"{_title(group)} is {texts[0]}."
    return f"{_title(group)} is the sum of {', '.join(texts[:-1])} and {texts[-1]}."


def _evidence(
    tried: "dict[Structure, LearntModel]", structure: "Structure", place: int
) -> list[str]:
    """Describe the change of evidence when a term of one group is added, removed or replaced."""
    added: dict[str, float] = {}
    removed: dict[str, float] = {}
    replaced: dict[str, dict[str, float]] = {}
    for other, row in _relatives(tried, structure, place).items():
        more, fewer = _differences(other[place], structure[place])
        change = row.log_evidence - tried[structure].log_evidence
        if len(more) == 1 and not fewer:
            added[more[0]] = change
        elif len(fewer) == 1 and not more:
            removed[fewer[0]] = change
        elif len(more) == 1 and len(fewer) == 1:
            replaced.setdefault(fewer[0], {})[more[0]] = change
    sentences = [
        f"Without {_the(name)} the log evidence changes by {_signed(change)}"
        f"{'' if change < -_WEAK else ', which is weak evidence for it'}."
        for name, change in removed.items()
    ]
    for old, changes in replaced.items():
        text = _list({_words(name): change for name, change in changes.items()})
        term = "a term" if old == NOTHING else f"another term in place of {_the(old)}"
        sentences.append(f"With {term} the log evidence changes: {text}.")
    if added:
        own = structure[place]
        named = {_further(name) if name in own else _words(name): added[name] for name in added}
        sentences.append(
            "No further term raises the score. Adding one changes the log evidence: "
            f"{_list(named)}."
        )
    return sentences


def _newcomers(found: "Discovery") -> str:
    """Describe the prior of newcomers, and the change of evidence with another one."""
    options, tried = found._options, found._state.tried
    texts = [
        f"{_title(group)} of newcomers: {own.describe(found.data.index.unit)}."
        for group in options.newcomers
        if (own := found.model.newcomers_of(group)) is not None
    ] or ["Newcomers have no prior of their own."]
    structure = options.structure(found.table.best.model)
    own = tried[structure].log_evidence
    others = _relatives(tried, structure, len(structure) - 1)
    changes = {
        other[-1][0]: row.log_evidence - own for other, row in others.items() if other != structure
    }
    if changes:
        texts.append(f"With another prior the log evidence changes: {_list(changes)}.")
    return " ".join(texts)


def _relatives(
    tried: "dict[Structure, LearntModel]", structure: "Structure", place: int
) -> "dict[Structure, LearntModel]":
    """The candidates that differ from a structure in one group only."""
    rest = structure[:place] + structure[place + 1 :]
    return {
        other: row
        for other, row in tried.items()
        if other[:place] + other[place + 1 :] == rest and not row.failed
    }


def _list(changes: dict[str, float]) -> str:
    """Terms with the change of the log evidence, the best first."""
    ordered = sorted(changes.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {_signed(change)}" for name, change in ordered)


def _outcomes(found: "Discovery") -> str:
    likelihoods = found.model.likelihoods
    texts = [
        f"{kind.capitalize() if kind else 'Outcomes'}: {each.describe()}."
        for kind, each in likelihoods.items()
    ]
    if found.likelihoods is not None:
        chosen = type(found.model.likelihood).__name__
        losses = {row.name: row.log_loss for row in found.likelihoods if row.log_loss is not None}
        for name, loss in losses.items():
            if name != chosen and chosen in losses:
                change = loss.value - losses[chosen].value
                texts.append(
                    f"With {name} the log loss of the last fifth of the matches changes by "
                    f"{_signed(change, 4)}."
                )
    return " ".join(texts)


def _differences(one: Form, other: Form) -> tuple[list[str], list[str]]:
    """The terms that only the first form has, and those that only the second has."""
    first, second = Counter(one), Counter(other)
    return list((first - second).elements()), list((second - first).elements())


def _words(name: str) -> str:
    if name.startswith(ASPECTS):
        names = name.removeprefix(ASPECTS)
        return f"aspect{'s' * (', ' in names)} {names}"
    return "no effect" if name == NOTHING else WORDS.get(name, name)


def _the(name: str) -> str:
    return f"the {_words(name).removeprefix('a ')}"


def _further(name: str) -> str:
    return f"further {_words(name).removeprefix('a ')}"


def _title(group: str) -> str:
    titles = {"home": "The home advantage", "skill": "Skill"}
    return titles.get(group, f"{group[:1].upper()}{group[1:]}")


def _signed(value: float, digits: int = 1) -> str:
    text = f"{abs(value):.{digits}f}"
    return text if not float(text) else f"{'+' if value > 0 else '−'}{text}"
