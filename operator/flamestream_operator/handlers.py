"""What the handlers of a job's actions share.

Keeps: a handler says whether there is something new to look at; what it may not go on behind, it raises as Stop. Does not: act.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from flamestream_operator.jobs.memory import Memory
from flamestream_operator.kube.cache import Key
from flamestream_operator.objects.meta import Object

Handler = Callable[[Key, Memory, Object, Any], Awaitable[bool]]
"""(job's name, what is remembered, the job, the action)."""


class Stop(Exception):
    """Look again: what was seen is old, or an effect was refused."""
