"""Report: what an experiment has shown, as tables; for people as text or a picture, for programs as data.

>>> print(Table("Letters", ("first", "second"), (("a", "b"), ("cc", "d"))).text)
Letters
  first  second
  a      b
  cc     d
"""

from dataclasses import dataclass
from html import escape
from textwrap import fill
from typing import Final

WIDTH: Final = 110
"""Characters of a line of prose."""
_LINE, _CHARACTER, _MARGIN = 18, 8.4, 16  # pixels of the picture


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under the names of their columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def text(self) -> str:
        """Lines of the table; each column is as wide as its widest cell."""
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        lines = [
            "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (self.columns, *self.rows)
        ]
        return "\n".join([self.title, *lines])


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of an experiment."""

    subject: str
    seed: str
    """The claim of the paper, and where it stands."""
    tables: tuple[Table, ...]
    finding: str
    """The claim that the tables show, in a sentence or two."""
    holds: bool
    """Whether what is claimed of FlameStream was found."""

    @property
    def text(self) -> str:
        """For people."""
        seed, finding = f"Seed: {self.seed}", self.finding if self.holds else f"NOT FOUND: {self.finding}"
        tables = (table.text for table in self.tables)
        return "\n\n".join([self.subject, fill(seed, WIDTH), *tables, fill(finding, WIDTH)])

    @property
    def svg(self) -> str:
        """The text as a picture of its own: no font and nothing else is fetched."""
        lines = self.text.splitlines()
        width = 2 * _MARGIN + _CHARACTER * max(map(len, lines))
        height = 2 * _MARGIN + _LINE * len(lines)
        spans = "".join(
            f'<text x="{_MARGIN}" y="{_MARGIN + _LINE * (number + 0.75):g}">{escape(line)}</text>\n'
            for number, line in enumerate(lines)
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {width:g} {height:g}">\n'
            "<style>text { font: 14px monospace; white-space: pre; }</style>\n"
            f'<rect width="100%" height="100%" fill="white"/>\n{spans}</svg>\n'
        )
