"""How commands end: exit codes, and errors in words instead of tracebacks."""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, TypeVar

import typer

__all__ = ["EXIT_CODES", "ExitCode", "UsageError", "guarded", "in_options"]

_TRACEBACK = "JAXKICK_TRACEBACK"

EXIT_CODES = """\
Exit codes: 0 fine; 1 the data or the model is bad; 2 wrong usage: options, files, columns or
competitors that do not exist, files that cannot be read or written, libraries that are not
installed; 3 not converged. JAXKICK_TRACEBACK=1 shows where an error arose."""


_OPTIONS = {
    "`on_invalid='drop'`": "`--on-invalid drop`",
    "`min_matches`": "`--min-matches`",
    "`active_within`": "`--active-within`",
    "`max_steps`": "`--max-steps`",
    "`time`": "`--time`",
    "`start`": "`--start`",
}


class ExitCode(IntEnum):
    """What a command returns to the shell when something is wrong."""

    DATA = 1
    USAGE = 2
    NOT_CONVERGED = 3


class UsageError(ValueError):
    """The command asks for something that does not exist or does not go together."""


Command = TypeVar("Command", bound=Callable[..., Any])


def in_options(message: str) -> str:
    """A message of the library with options in place of its arguments."""
    for argument, option in _OPTIONS.items():
        message = message.replace(argument, option)
    return message


def guarded(command: Command) -> Command:
    """The command with its errors in words.

    Args:
        command: a function that typer turns into a command.
    """

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        with _in_words():
            return command(*args, **options)

    return run  # type: ignore[return-value]


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        typer.echo(f"error: {_describe(error)}", err=True)
        raise typer.Exit(_code_of(error)) from error


def _code_of(error: Exception) -> ExitCode:
    if isinstance(error, (UsageError, OSError, ImportError)):
        return ExitCode.USAGE
    return ExitCode.NOT_CONVERGED if _did_not_converge(error) else ExitCode.DATA


def _did_not_converge(error: Exception) -> bool:
    """Whether inference failed; it cannot have where it was never loaded."""
    inference = sys.modules.get("jaxkick.inference")
    return inference is not None and isinstance(error, inference.InferenceError)


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename!r}: " if error.filename else ""
        return f"{where}{error.strerror}."
    if isinstance(error, (ValueError, OSError, ImportError)) or _did_not_converge(error):
        return in_options("\n".join([str(error), *getattr(error, "__notes__", [])]))
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; try `--float32` or fewer matches."
    return (
        f"this is a fault of jaxkick itself ({type(error).__name__}: {error}); with "
        f"{_TRACEBACK}=1 in the environment it shows where."
    )
