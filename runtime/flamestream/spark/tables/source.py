"""The `flamestream` data source: options, schema, and which reader.

| option      | means                                                                             |
|-------------|-----------------------------------------------------------------------------------|
| `manifest`  | required: the job's manifest                                                      |
| `sink`      | read this sink's delivered items; without it, the state of the job's operations    |
| `epoch`     | state: of this epoch (default: the committed, else the newest). Output: below its cut |
| `cut`       | output below this global time                                                     |
| `fromCut`, `fromEpoch` | output from there on                                                   |
| `slots`     | read these slots only, like `0-63,200`                                            |
| `pushDown`  | `true`: take filters on `slot` from Spark; for a DataFrame that one query uses     |
| `runFolder` | where the job ran (default: ./.flamestream/JOB)                                     |
| `columns`   | `true`: a column for each field of the payload, types guessed from the first one   |

Keeps: nothing is written. Does not: need the job to run, or to be stopped.
"""

from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader

from flamestream.model.errors import UserError
from flamestream.spark.tables.columns import fields_of
from flamestream.spark.tables.job_files import JobFiles, job_files
from flamestream.spark.tables.output import OutputReader, PushedOutputReader, Span, first_payload
from flamestream.spark.tables.slots import slots_in
from flamestream.spark.tables.state import PushedStateReader, StateReader, first_state

OPTIONS: Final = (
    "manifest",
    "sink",
    "epoch",
    "cut",
    "fromcut",
    "fromepoch",
    "runfolder",
    "columns",
    "slots",
    "pushdown",
)
STATE_COLUMNS: Final = (
    "operation int, name string, slot int, epoch bigint, key string, state string, key_canonical binary, "
    "state_canonical binary"
)
OUTPUT_COLUMNS: Final = (
    "slot int, sequence bigint, time bigint, front int, meta binary, payload string, payload_canonical binary"
)


class FlameStreamTables(DataSource):
    """Registered by `flamestream.spark.tables.register(spark)`."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        unknown = sorted(name for name in options if name.lower() not in OPTIONS and name != "path")
        if unknown or "manifest" not in options:
            what = f"unknown option {unknown[0]!r}" if unknown else "option 'manifest' is missing"
            raise UserError(f"format('flamestream'): {what}; it has {', '.join(OPTIONS)}")

    @classmethod
    def name(cls) -> str:
        return "flamestream"

    def schema(self) -> str:
        files, sink = self._files(), self.options.get("sink")
        fixed = STATE_COLUMNS if sink is None else OUTPUT_COLUMNS
        if self.options.get("columns", "false").lower() != "true":
            return fixed
        found = first_state(files, self._number("epoch")) if sink is None else first_payload(files, sink)
        taken = {column.split()[0] for column in fixed.split(", ")}
        more = [
            f"`{name}` {kind}" for name, kind in (fields_of(found[0]) if found else []) if name not in taken
        ]
        return ", ".join([fixed, *more])

    def reader(self, schema: Any) -> DataSourceReader:
        files, sink = self._files(), self.options.get("sink")
        slots, pushed = self.options.get("slots"), self.options.get("pushDown", "false").lower() == "true"
        wanted = None if slots is None else slots_in(slots)
        if sink is None:
            state = PushedStateReader if pushed else StateReader
            return state(files, files.snapshot(self._number("epoch")), schema, wanted)
        output = PushedOutputReader if pushed else OutputReader
        return output(files, sink, self._span(files), schema, wanted)

    def _files(self) -> JobFiles:
        return job_files(self.options["manifest"], self.options.get("runFolder"))

    def _span(self, files: JobFiles) -> Span:
        return Span(self._time(files, "fromCut", "fromEpoch"), self._time(files, "cut", "epoch"))

    def _time(self, files: JobFiles, cut: str, epoch: str) -> int | None:
        if self.options.get(cut) is not None and self.options.get(epoch) is not None:
            raise UserError(f"format('flamestream'): give either {cut!r} or {epoch!r}")
        number = self._number(epoch)
        return self._number(cut) if number is None else files.snapshot(number).cut

    def _number(self, option: str) -> int | None:
        text = self.options.get(option)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            raise UserError(f"format('flamestream'): option {option!r} is a number, not {text!r}") from None
