"""Reports of a worker without users' data, for a coordinator whose status others read: the worker's own log
has the data.

Keeps: on one machine, where the status is its owner's, nothing is taken out. Does not: find data that nobody
has marked (model/quoted.py).
"""

import logging

import msgspec

from flamestream.core.protocol.messages import ToCoordinator
from flamestream.model.quoted import BEGIN, plain, public

log = logging.getLogger(__name__)


class Discretion:
    """The discretion of one worker."""

    def __init__(self, private: bool) -> None:
        self._private = private
        self._logged: dict[str, str] = {}

    def about(self, message: ToCoordinator) -> ToCoordinator:
        """The message as it may be told. What is taken out is logged, and once while it is told again and
        again."""
        every = message.__struct_fields__
        marked = {
            name: text for name in every if isinstance(text := getattr(message, name), str) and BEGIN in text
        }
        if not marked:
            return message
        if self._private and marked != self._logged:
            self._logged = marked
            log.error(
                "told without users' data",
                extra={f"whole_{name}": plain(text) for name, text in marked.items()},
            )
        told = public if self._private else plain
        return msgspec.structs.replace(message, **{name: told(text) for name, text in marked.items()})
