"""Messages to the user: notes, progress, and errors with their exit codes.

All of them go to the error stream, so that the standard output contains only results.
"""

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from typing import Any, TypeVar

import typer

EXIT_CODES = """\
Exit codes: 0 success; 1 bad data or model; 2 wrong usage: options, files, columns or competitors
that do not exist, files that cannot be read or written, libraries that are not installed; 3 not
converged. Set JAXKICK_TRACEBACK=1 to see the traceback of an error."""

_TRACEBACK = "JAXKICK_TRACEBACK"
_SCORES = "`--score-first` and `--score-second`"
_OPTIONS = {
    **dict.fromkeys(("counts", "difference", "result"), _SCORES),
    "home": "`--home-column`",
    "on_invalid='drop'": "`--on-invalid drop`",
    "allow_repeats=True": "`--allow-repeats`",
    "outcomes={1: 1, 0.5: 0, 0: -1}": "`--win 1 --tie 0.5 --loss 0`",
    "points=...": "`--points`",
    "features": "`--feature`",
    "tie_breakers": "`--tie-breaker`",
    "zones": "`--zone`",
}
_SAME_NAME = frozenset({
    "active_within", "competitor", "dnf", "event", "first", "interval", "max_steps",
    "min_matches", "neutral", "on_invalid", "outcome", "points", "rank", "scale", "second",
    "start", "team", "time", "unit", "weight",
})  # fmt: skip

Command = TypeVar("Command", bound=Callable[..., Any])


class ExitCode(IntEnum):
    """Exit code of a command that fails."""

    DATA = 1
    USAGE = 2
    NOT_CONVERGED = 3


class UsageError(ValueError):
    """An error about options that contradict each other or name something that does not exist."""


def option_of(argument: str) -> str:
    """The option that sets an argument of the Python interface, for error messages."""
    if argument in _SAME_NAME:
        return f"`--{argument.replace('_', '-')}`"
    # The feature of an argument such as `features['car']` is clear from its column.
    known = argument.partition("[")[0]
    return _OPTIONS.get(known if known in ("features", "zones") else argument, f"`{argument}`")


def guarded(command: Command) -> Command:
    """Make a command print its errors without a traceback and exit with the right code."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except Exception as error:
            if os.environ.get(_TRACEBACK):
                raise
            typer.echo(f"error: {_describe(error)}", err=True)
            raise typer.Exit(_code_of(error)) from error

    return run  # type: ignore[return-value]


def _code_of(error: Exception) -> ExitCode:
    if isinstance(error, (UsageError, OSError, ImportError)):
        return ExitCode.USAGE
    return ExitCode.NOT_CONVERGED if _is_inference_error(error) else ExitCode.DATA


def _is_inference_error(error: Exception) -> bool:
    # Looked up in `sys.modules`, because `jaxkick --help` must not import JAX.
    inference = sys.modules.get("jaxkick.inference")
    return inference is not None and isinstance(error, inference.InferenceError)


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename!r}: " if error.filename else ""
        return f"{where}{error.strerror}."
    if isinstance(error, MemoryError):
        return "out of memory. Try `--float32` or fewer matches."
    if isinstance(error, (ValueError, OSError, ImportError)) or _is_inference_error(error):
        # Imported here, because it needs NumPy and `jaxkick --help` does not.
        from jaxkick.errors import DataError

        text = error.message(name=option_of) if isinstance(error, DataError) else str(error)
        return "\n".join([text, *getattr(error, "__notes__", [])])
    return (
        f"this is a bug in jaxkick ({type(error).__name__}: {error}). Set {_TRACEBACK}=1 to see "
        "the traceback."
    )


def note(text: str) -> None:
    """Print a remark."""
    typer.echo(f"note: {text}", err=True)


@contextmanager
def stage(name: str) -> Iterator[Callable[[str], None]]:
    """Show progress: a spinner in a terminal, and a line with the duration at the end.

    Yields:
        A function that sets the text shown after the name.
    """
    began, shown = time.perf_counter(), name
    status: Any = nullcontext()
    if sys.stderr.isatty():
        from rich.console import Console

        status = Console(stderr=True, highlight=False).status(f"{name} …")

    def tell(text: str) -> None:
        nonlocal shown
        shown = f"{name}: {text}"
        if spinner is not None:
            spinner.update(shown)

    with status as spinner:
        yield tell
    typer.echo(f"{shown} ({time.perf_counter() - began:.1f} s)", err=True)
