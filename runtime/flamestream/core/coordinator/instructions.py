"""Instructions: the coordinator's actions of one step, in order. Its parts put them in; `step` takes them
out."""

from collections.abc import Iterable

from flamestream.core.coordinator.coordination import Action, Tell
from flamestream.core.protocol.messages import ToWorker
from flamestream.model.ids import WorkerId


class Instructions:
    """A list that is emptied at the end of each step."""

    def __init__(self) -> None:
        self._actions: list[Action] = []

    def add(self, action: Action) -> None:
        """Put an action behind those that are there."""
        self._actions.append(action)

    def tell(self, workers: Iterable[WorkerId], message: ToWorker) -> None:
        """Tell each of `workers` the same."""
        self._actions.extend(Tell(worker, message) for worker in workers)

    def take(self) -> list[Action]:
        """All actions so far; none is left."""
        actions, self._actions = self._actions, []
        return actions
