"""Python as it is typed on a page gives what stands there, and a picture of a graph is what `flamestream
plan` draws of it."""

import doctest
from typing import Any

import pytest

from flamestream.job.plan.drawing import mermaid
from flamestream.model.graph import Graph
from support.docs.doc_blocks import Block, blocks
from support.docs.doc_forms import forms

FORMS = forms(blocks())
PAGES = sorted({block.file for block in blocks() if FORMS.get(block.name) == "session"})


@pytest.mark.parametrize("page", PAGES)
def test_a_page_s_python_gives_what_it_shows(page: str) -> None:
    space: dict[str, Any] = {"__name__": "doc_page"}
    for block in (block for block in blocks() if block.file == page):
        match FORMS.get(block.name):
            case "session" if block.text.startswith(">>>"):
                _typed(block, space)
            case "session":
                exec(compile(block.text, block.file, "exec"), space)  # noqa: S102
            case "drawn":
                assert isinstance(space.get("graph"), Graph), f"{block.name}: there is no graph above it"
                drawn = mermaid(space["graph"])
                assert block.text == drawn, f"{block.file}:{block.line}: `flamestream plan` draws\n{drawn}"


def _typed(block: Block, space: dict[str, Any]) -> None:
    """One block, in what the blocks before it have left."""
    test = doctest.DocTestParser().get_doctest(block.text + "\n", space, block.name, block.file, block.line)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    failed, tried = runner.run(test, out=said.append, clear_globs=False)
    space.update(test.globs)
    assert tried and not failed, "".join(said)
