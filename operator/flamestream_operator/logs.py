"""Which of others' log lines of the operator's process are heard, and who hears them.

Does not: write a line (flamestream/machine/logs.py).
"""

import logging
from typing import Final

from flamestream.machine.logs import begin_logging

_CHATTY: Final = ("httpx", "httpx2", "httpcore", "httpcore2", "botocore", "kazoo", "kopf")


class _WithoutObjects(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        for name in ("k8s_ref", "k8s_skip", "settings"):  # kopf's own, whole objects among them
            vars(record).pop(name, None)
        return True


def begin() -> None:
    """Log to stderr, and others' libraries only what is wrong."""
    begin_logging(_WithoutObjects())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def listen(handler: logging.Handler) -> None:
    """Have `handler` hear the news too."""
    handler.addFilter(_WithoutObjects())
    logging.getLogger().addHandler(handler)
