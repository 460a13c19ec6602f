"""The guide: every block runs, and prints what the page says; the reference is complete."""

import inspect
import re
from importlib import import_module

import matplotlib
import pytest

import jaxkick
from tests.docs.pages import GUIDE, ROOT, blocks_of, league, run_page

# The migration page has a test of its own, which looks at its results.
PAGES = sorted(page for page in GUIDE.glob("*.md") if page.stem != "migration")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    run_page(page, league())


def test_a_block_that_prints_something_else_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(2)\n```\n\n```text\n3\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md, line 6"):
        run_page(page)


def test_no_block_goes_unnoticed(tmp_path):
    page = tmp_path / "page.md"
    for block in ("```py\n1\n```\n", "```sh\nrm results.csv\n```\n"):
        page.write_text(block)
        with pytest.raises(AssertionError, match="nobody runs"):
            run_page(page)


def test_the_command_of_the_readme_is_that_of_the_checks():
    """The tests are called in `.ci/run` as the README says, but for the environment's place."""
    commands = [block.text for block in blocks_of(ROOT / "README.md") if block.language == "sh"]
    called = re.search(r"\((pip install .*pytest.*)\)", (ROOT / ".ci" / "run").read_text())
    assert any(called[1] in text for text in commands)


def test_the_reference_has_every_public_name():
    pages = "".join(page.read_text() for page in (GUIDE / "reference").glob("*.md"))
    listed = set(re.findall(r"^::: (jaxkick\S*)", pages, re.MULTILINE))
    modules = {"datasets", "evaluation", "kernels", "likelihoods", "plotting", "simulation"}
    for name in set(jaxkick.__all__) - modules:
        assert f"jaxkick.{name}" in listed
    for module in modules - {"kernels", "likelihoods"}:
        assert f"jaxkick.{module}" in listed


@pytest.mark.parametrize("module", ["kernels", "likelihoods"])
def test_the_reference_gives_arguments_in_their_order(module):
    text = (GUIDE / "reference" / f"{module}.md").read_text()
    package = import_module(f"jaxkick.{module}")
    headings = re.findall(r'heading: "(\w+)\((.*)\)"', text)
    for name, arguments in headings:
        parameters = inspect.signature(getattr(package, name)).parameters.values()
        shown = [str(each.replace(annotation=inspect.Parameter.empty)) for each in parameters]
        assert arguments == ", ".join(shown), name
    listed = set(re.findall(r"^::: jaxkick\.\w+\.(\w+)", text, re.MULTILINE))
    assert set(package.__all__) - listed <= {"Derivatives", "Epoch", "Instant", "Interval"}
