"""A DataFrame or table as a job's bounded input: saved once as Parquet files in a certain order, read by any
runner as `files: {path, pattern: "**/*.parquet", format: parquet, tuples: true}`.

A DataFrame has no order of its own, and two looks at it may differ; a job's result depends on the order of
its input, and every recovery reads it again. So it is given an order and written down.

Keeps: files whose names sort as their rows do. Does not: change a value.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flamestream.connectors.files.cut_files import ALL, Reading, saved_at
from flamestream.connectors.files.formats import Mark
from flamestream.connectors.files.spec import FilesSpec
from flamestream.model.errors import UserError


def save_input(frame: Any, path: str, order_by: Sequence[Any]) -> int:
    """Save `frame` (a table: `spark.table(name)`) to the new folder `path`, sorted; how many rows. `order_by`
    must leave no ties."""
    if not order_by:
        raise UserError(
            "save_input: order_by is empty: a DataFrame has no order, and a job's result depends on it; name "
            "columns without ties"
        )
    if Path(path).exists():
        raise UserError(f"save_input: {path} exists: inputs are saved once, give another folder")
    frame.sort(*order_by).write.parquet(path)
    reading = Reading.of(FilesSpec(**saved_at(path)), "saved", "save_input")
    return sum(reading.skip(file, Mark(), ALL) for file in reading.place().listing(settled_only=True))
