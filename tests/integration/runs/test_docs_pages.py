"""Tutorials and how-to pages, typed from top to bottom as a reader does: each command says what the page
shows.

Workers are plain processes (`--no-spark`) where Spark is not the point.
"""

from pathlib import Path

import pytest

from support.docs.doc_blocks import blocks
from support.docs.doc_forms import file_of, forms
from support.docs.typed import Terminal, fits, plain, session

FORMS = forms(blocks())
TYPED = [block for block in blocks() if FORMS.get(block.name) == "typed"]
SLOW = {"results-in-spark.md": [pytest.mark.spark, pytest.mark.slow], "papers.md": [pytest.mark.slow]}
"""A minute and half a one: the cells of the page about tables (test_docs_run.py), and what papers show, are run at
each push."""
PAGES = [pytest.param(page, marks=SLOW.get(page, ())) for page in sorted({block.file for block in TYPED})]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_shows(page: str, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        for block in (block for block in TYPED if block.file == page):
            if name := file_of(block):
                (tmp_path / name).write_text(block.text + "\n")
                continue
            for command, shown in session(block):
                said = terminal.type(command)
                assert fits(said, shown), (
                    f"{page}:{block.line}: $ {command}\nsays\n{plain(said)}\nand not\n{plain(shown)}"
                )
    finally:
        terminal.close()
