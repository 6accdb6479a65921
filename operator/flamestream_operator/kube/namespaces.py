"""Namespaces whose jobs an operator looks after: all that it watches, or those with chosen labels.

>>> team = LabelSelector(match_labels={"team": "streams"})
>>> team.matches({"team": "streams", "stage": "live"}), team.matches({})
(True, False)

Keeps: a namespace is complete only once its objects were listed: events from before it was chosen were passed
over. Does not: watch or list (watches.py, lists.py), or bound rights: RBAC knows no labels.
"""

from typing import Literal

from msgspec import Struct

from flamestream_operator.kube.cache import Store
from flamestream_operator.objects.meta import Object


class Requirement(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A requirement among a selector's `matchExpressions`."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def matches(self, labels: dict[str, str]) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":  # as in Kubernetes: a label that is not there has none of the values
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels


class LabelSelector(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Kubernetes' own: all that it names must hold, and one that names nothing chooses everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: dict[str, str]) -> bool:
        return self.match_labels.items() <= labels.items() and all(
            each.matches(labels) for each in self.match_expressions
        )


class Namespaces:
    """Which of them are chosen, by the newest that was seen of their labels. Without a selector every one is, and
    complete."""

    def __init__(self, selector: LabelSelector | None = None) -> None:
        self._selector = selector
        self._there = Store()
        self._complete = set[str]()

    @property
    def are_chosen(self) -> bool:
        """Whether labels choose them, so that somebody has to watch those."""
        return self._selector is not None

    def has(self, namespace: str) -> bool:
        """Whether its objects count."""
        if self._selector is None:
            return True
        there = self._there.get(("", namespace))
        return there is not None and self._selector.matches(there["metadata"].get("labels") or {})

    def is_complete(self, namespace: str) -> bool:
        """Whether all that is in it is known, so that somebody may act on it."""
        return self._selector is None or namespace in self._complete

    def seen(self, namespace: Object, *, gone: bool) -> bool:
        """Whether it is chosen from now on, or not any more."""
        name = str(namespace["metadata"]["name"])
        before = self.has(name)
        if gone:
            self._there.drop(namespace)
        else:
            self._there.put(namespace)
        if not self.has(name):
            self._complete.discard(name)
        return self.has(name) != before

    def put_all(self, namespaces: list[Object]) -> None:
        """Take over a fresh list. One that it lacks may be newer; if it is gone, so is what it had."""
        for each in namespaces:
            self._there.put(each)
        self._complete &= self.chosen()

    def chosen(self) -> set[str]:
        """Their names; of no use without a selector."""
        return {name for each in self._there if self.has(name := str(each["metadata"]["name"]))}

    def listed(self, namespaces: set[str]) -> None:
        """All that is in them is known by now."""
        self._complete |= namespaces & self.chosen()
