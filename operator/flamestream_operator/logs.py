"""Which log lines of the operator's process are news, and who hears them.

Does not: write a line (flamestream/machine/logs.py).
"""

import logging
from typing import Final

from flamestream.machine.logs import begin_logging

_CHATTY: Final = ("httpx", "httpx2", "httpcore", "httpcore2", "botocore", "kazoo", "kopf")
_ANSWERS: Final = ("Opened", "Sealed", "PeerLost", "Failed")
"""Messages of workers in a recovery; those that every one of them sends in every epoch are no news."""


class _News(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        for name in ("k8s_ref", "k8s_skip", "settings"):  # kopf's own, whole objects among them
            vars(record).pop(name, None)
        return record.msg != "worker says" or getattr(record, "said", "") in _ANSWERS


def begin() -> None:
    """Log to stderr, and others' libraries only what is wrong."""
    begin_logging(_News())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def listen(handler: logging.Handler) -> None:
    """Have `handler` hear the news too."""
    handler.addFilter(_News())
    logging.getLogger().addHandler(handler)
