"""Run the code of a Markdown page, as a reader would."""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs"

# What sets a machine up; `.ci/run` does it, and the pages' own tests do not.
_SETTING_UP = ("python3 -m venv", "pip install", "#", "bash .ci/", "python benchmarks/")


class Block(NamedTuple):
    """A fenced block of a page.

    Attributes:
        language: the word after the fence.
        text: what stands in it.
        line: where it begins in the page.
    """

    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(each[1], each[2], text[: each.start()].count("\n") + 2) for each in found]


def run_page(page: Path) -> dict[str, Any]:
    """Run all blocks of a page one after the other, in one namespace and the present folder.

    `python` blocks are executed. A `text` block is what the block before it must have printed.
    `sh` blocks hold commands of `jaxkick`, which are run, and what sets a machine up, which is
    not. Any other language is refused, so that no block goes unnoticed.

    Args:
        page: the Markdown file.

    Returns:
        The names that the page leaves behind.
    """
    names: dict[str, Any] = {"__name__": page.stem}
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
