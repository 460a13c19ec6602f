"""Run the code of a Markdown page, as a reader would."""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs"

# Commands that set up a machine. `.ci/run` runs them; the tests of the pages do not.
_SETTING_UP = ("python3 -m venv", "pip install", "#", "bash .ci/", "python benchmarks/")


class Block(NamedTuple):
    """A fenced block of a page.

    Attributes:
        language: the word after the fence.
        text: its content.
        line: the line of the page where it begins.
    """

    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(each[1], each[2], text[: each.start()].count("\n") + 2) for each in found]


def league() -> dict[str, Any]:
    """The names of the quickstart's first block, with which pages of the guide begin."""
    page = GUIDE / "quickstart.md"
    names: dict[str, Any] = {}
    _run_python(next(block for block in blocks_of(page) if block.language == "python"), page, names)
    return names


def run_page(page: Path, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run all blocks of a page one after the other, in one namespace and the current folder.

    `python` blocks are executed. A `text` block is the expected output of the block before it.
    `sh` blocks hold `jaxkick` commands, which are run, and commands that set up a machine, which
    are not. Any other language is refused, so that no block is skipped by mistake.

    Args:
        page: the Markdown file.
        names: the namespace to begin with.

    Returns:
        The names that the page leaves behind.
    """
    names = {**(names or {}), "__name__": page.stem}
    printed = None
    for block in blocks_of(page):
        where = f"{page.name}, line {block.line}"
        if block.language == "python":
            printed = _run_python(block, page, names)
        elif block.language == "sh":
            printed = _run_commands(block, where)
        elif block.language == "text":
            assert printed == block.text, f"{where}: printed was\n{printed}"
        else:
            raise AssertionError(f"{where}: nobody runs a block of {block.language!r}")
    return names


def _run_python(block: Block, page: Path, names: dict[str, Any]) -> str:
    # Empty lines in front, so that tracebacks name the line of the page.
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(code, names)
    return output.getvalue()


def _run_commands(block: Block, where: str) -> str:
    output = ""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("jaxkick "):
            output += _run_command(line, where)
        elif line and not line.startswith(_SETTING_UP):
            raise AssertionError(f"{where}: nobody runs {line!r}")
    return output


def _run_command(line: str, where: str) -> str:
    from typer.testing import CliRunner

    from jaxkick.cli.app import app

    result = CliRunner().invoke(app, shlex.split(line)[1:])
    assert result.exit_code == 0, f"{where}: {line}\n{result.output}{result.stderr}"
    return result.stdout
