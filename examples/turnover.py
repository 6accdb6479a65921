"""Turnover: each sale changes its shop's total. Vectorised and ready-made functions: no Python runs for a
single record.

A line is `shop,cents`. Lines become columns by pyarrow, a batch at a time; the rest is said by the names of
fields. The same job with functions of one's own would be three short lambdas, and give the same bytes.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

import flamestream as fs


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Sale:
    """One line."""

    shop: str
    cents: int


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Turnover:
    """A shop's total since a sale, and that sale."""

    shop: str
    total: int
    cents: int


@fs.vectorized(takes=str, makes=Sale)
def sales(lines: pa.Array) -> pa.Array:
    """A line that is no sale raises; it alone becomes an error item."""
    shop = pc.replace_substring_regex(lines, "^(.*),[^,]*$", r"\1")
    cents = pc.replace_substring_regex(lines, "^.*,([^,]*)$", r"\1").cast(pa.int64())
    return pa.StructArray.from_arrays([shop, cents], ["shop", "cents"])


graph = fs.Graph("turnover")
changed = (
    graph.source("lines")
    .map(sales)
    .reduce(
        key=fs.field("shop"),
        combine=fs.total("cents"),
        emit=fs.record(Turnover, "shop", "cents", total=fs.state),
    )
)
changed.sink("turnover", key=fs.field("shop"))
