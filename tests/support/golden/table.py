"""The table of all formats that have golden files."""

from typing import Final

from support.golden.format import Format
from support.golden.journals import JOURNALS
from support.golden.payloads import PAYLOADS
from support.golden.runs import RUNS
from support.golden.sinks import SINKS
from support.golden.snapshots import SNAPSHOTS

FORMATS: Final[tuple[Format, ...]] = (*SNAPSHOTS, *JOURNALS, *SINKS, *PAYLOADS, *RUNS)
