"""Log lines as JSON, one event each: time, level, logger, message, fields.

Does not: log secrets; nothing that holds one has a text of its own.
"""

import json
import logging
import sys
from typing import Any, Final

_KNOWN: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Fields of `extra` stand beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _KNOWN and key not in ("k8s_ref", "k8s_skip", "settings")}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _is_news(record: logging.LogRecord) -> bool:
    """What every worker says in every epoch is not; its answers in a recovery are."""
    return record.msg != "worker says" or getattr(record, "said", "") in ("Opened", "Sealed", "PeerLost", "Failed")


def begin_logging() -> None:
    """To stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(_is_news)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for chatty in ("httpx", "httpx2", "httpcore", "httpcore2", "botocore", "kazoo", "kopf"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
