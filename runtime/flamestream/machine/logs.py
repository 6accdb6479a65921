"""Log lines: one JSON object each, with the same fields in workers, coordinators, drivers and the operator.

| field             | says                                                                 |
|-------------------|----------------------------------------------------------------------|
| at, level, logger | when (UTC, to the millisecond), how grave, and which module          |
| event             | what, in words that stay the same                                    |
| job, role, ...    | who the process is, once for all its lines                           |
| others            | the fields of this event                                             |
| traceback         | where an exception came from                                         |

Does not: log secrets; nothing that holds one has a text of its own.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

# `message` and `asctime` are left on a record by other formatters.
_NO_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Fields of `extra` stand beside the event."""

    def __init__(self, who: Mapping[str, object]) -> None:
        super().__init__()
        self._who = who

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {name: value for name, value in vars(record).items() if name not in _NO_FIELDS}
        line: dict[str, object] = {
            "at": when,
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= {**self._who, **fields}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def begin_logging(*filters: logging.Filter, **who: object) -> None:
    """Log to stderr as `who`, from INFO on. `filters` see each record before it is a line."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(who))
    for each in filters:
        handler.addFilter(each)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
