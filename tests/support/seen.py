"""Histories in a line of text, and what they are judged by: texts that are joined in the order of entering.

    seen("+a +b/q ->ab ! ->abc .")      entered a (partition p) and b (partition q); ab left; crashed; abc left;
                                        everything had to have come out by then

`c` is taken and gives nothing. What stands for its key is "k".
"""

from flamestream.audit.definitions.history import Crashed, Entered, Event, History, Left
from flamestream.audit.definitions.steps import Result


class Joined:
    """All that was taken, in its order."""

    def initial(self) -> str:
        return ""

    def step(self, state: str, value: str) -> tuple[str, list[Result]]:
        after = state + value
        return after, [] if value == "c" else [("out", after)]

    def mark(self, state: str) -> str:
        return state


def seen(text: str) -> History:
    """The history that `text` says; its places are counted from 1."""
    events: list[Event] = []
    for place, word in enumerate(text.split(), 1):
        if word == "!":
            events.append(Crashed(place))
        elif word.startswith("+"):
            value, _, partition = word[1:].partition("/")
            events.append(Entered(place, "k", partition or "p", value))
        elif word != ".":
            events.append(Left(place, "k", "out", word.removeprefix("->")))
    return History(events, ended=text.endswith("."))
