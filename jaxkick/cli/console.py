"""What people read while a command works: on the error stream, away from results."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

__all__ = ["note", "stage"]


def note(text: str) -> None:
    """Say something beside the results."""
    typer.echo(f"note: {text}", err=True)


@contextmanager
def stage(name: str) -> Iterator[Callable[..., None]]:
    """Show what is being done, and in the end how long it took.

    In a terminal a spinner turns, with what the stage tells of itself; elsewhere there is one
    line at the end.

    Args:
        name: what is being done, as in "learning".

    Yields:
        A function that takes a text to show beside the name.
    """
    began = time.perf_counter()
    last: list[str] = []
    with _spinner(name) as show:

        def tell(text: str) -> None:
            last[:] = [f": {text}"]
            show(f"{name}: {text}")

        yield tell
    seconds = time.perf_counter() - began
    typer.echo(f"{name}{''.join(last)} ({seconds:.1f} s)", err=True)


@contextmanager
def _spinner(name: str) -> Iterator[Callable[[str], Any]]:
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status(f"{name} …") as status:
        yield status.update
