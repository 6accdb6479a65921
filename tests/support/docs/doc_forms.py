"""What is done with a block that has no row in doc_table.py: its form says it.

| form                                                            | what is done |
|-----------------------------------------------------------------|-----|
| `console`, and files (`# NAME` on top) on a page that has one   | typed from top to bottom: tests/integration/runs/test_docs_pages.py |
| Python that begins with `>>>`, and files on a page that has one | executed, answers compared: tests/unit/docs/test_doc_sessions.py |
| `mermaid` on such a page                                        | what `flamestream plan` draws of the graph above it: the same |
"""  # noqa: E501

import re
from collections.abc import Iterable
from typing import Literal

from support.docs.doc_blocks import Block
from support.docs.doc_table import ROWS

Form = Literal["typed", "session", "drawn", ""]


def file_of(block: Block) -> str:
    """The name of the file that a block is; "": it is none."""
    found = re.match(r"# ([\w/]+\.(?:py|yaml))\b", block.text)
    return found[1] if found and block.language in ("python", "yaml") else ""


def forms(blocks: Iterable[Block]) -> dict[str, Form]:
    """By name, of the blocks that have no row."""
    free = [block for block in blocks if block.name not in ROWS]
    typed = {block.file for block in free if block.language == "console"}
    tried = {block.file for block in free if _is_session(block)}
    return {block.name: _form(block, block.file in typed, block.file in tried) for block in free}


def _form(block: Block, typed: bool, tried: bool) -> Form:
    if block.language == "console" or (typed and file_of(block)):
        return "typed"
    if _is_session(block) or (tried and file_of(block)):
        return "session"
    return "drawn" if tried and block.language == "mermaid" else ""


def _is_session(block: Block) -> bool:
    return block.language == "python" and block.text.startswith(">>>")
