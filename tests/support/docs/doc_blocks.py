"""The code blocks of README.md, CONTRIBUTING.md and every page below docs/, each with a name that lasts: its
page and its first words.

Decisions are left out: they show what was tried then. A block is fenced, or indented by four behind an empty
line.
"""

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True)
class Block:
    """One block."""

    file: str
    line: int
    language: str
    """"" of an indented one."""
    text: str

    @property
    def name(self) -> str:
        """In the table of docs' examples."""
        return f"{self.file}: {' '.join(self.text.split())[:60]}"


def blocks() -> list[Block]:
    """All, in order."""
    pages = [page for page in (REPOSITORY / "docs").rglob("*.md") if "decisions" not in page.parts]
    return [
        block
        for file in [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted(pages)]
        for block in _of(file)
    ]


def _of(file: Path) -> list[Block]:
    name, lines, found, at = file.name, file.read_text(encoding="utf-8").split("\n"), list[Block](), 0
    while at < len(lines):
        fence = re.match(r"```(\w*)$", lines[at])
        if fence:
            end = lines.index("```", at + 1)
            found.append(Block(name, at + 1, fence[1], "\n".join(lines[at + 1 : end])))
            at = end
        elif lines[at].startswith("    ") and not lines[at - 1].strip():
            end = next(
                (n for n in range(at, len(lines)) if lines[n].strip() and not lines[n].startswith("    ")),
                len(lines),
            )
            found.append(Block(name, at + 1, "", "\n".join(line[4:] for line in lines[at:end]).rstrip()))
            at = end - 1
        at += 1
    return found
