"""Questions to the API server about people: whose token is it, and what may they do? Answers are kept for a while.

    token ──▶ TokenReview (whose is it?) ──▶ SubjectAccessReview (may they?) ──▶ kept for KEPT_FOR

Keeps: so many answers at most, by digests, and so many questions under way, so a flood of made-up tokens costs
the API server little and shuts nobody out who was answered before. Does not: keep a token, or say yes while the API
server does not answer.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from flamestream_operator.objects.meta import Object, whole

T = TypeVar("T")
KEPT_FOR: Final = 30.0
"""Seconds; a right that is taken away holds for so long."""
MOST_KEPT: Final = 256
AT_ONCE: Final = 4
LONGEST_TOKEN: Final = 8192


class Reviews(Protocol):
    """The part of the API server that is asked."""

    async def create(self, thing: Object, *, dry_run: bool = False) -> Object: ...


class NotNow(Exception):
    """Too many others are asked about."""


class _Answer(NamedTuple):
    value: Any
    until: float


class Answers(Generic[T]):
    """Answers to questions of one kind. A true one is good: it lets somebody in, and keeps its place."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        most: int = MOST_KEPT,
        at_once: int = AT_ONCE,
    ) -> None:
        self._clock, self._most, self._at_once = clock, most, at_once
        self._kept: OrderedDict[bytes, _Answer] = OrderedDict()
        self._asking = 0

    async def of(self, key: str, question: Callable[[], Awaitable[T]]) -> T:
        """The answer that is kept under a digest of `key`, or that to `question`. Raises NotNow, and what the question
        raises, which is not kept."""
        digest = hashlib.sha256(key.encode()).digest()  # never the key itself (!): it has a token
        known = self._kept.get(digest)
        if known is not None and self._clock() < known.until:
            return known.value  # type: ignore[no-any-return]  # only `_keep` puts any there
        # a flood shuts out only who was never let in
        if self._asking >= self._at_once and not (known is not None and known.value):
            raise NotNow
        self._asking += 1
        try:
            value = await question()
        finally:
            self._asking -= 1
        self._keep(digest, value)
        return value

    def __len__(self) -> int:
        return len(self._kept)

    def _keep(self, digest: bytes, value: T) -> None:
        """The oldest gives way, but none that lets somebody in for one that does not."""
        self._kept.pop(digest, None)
        if len(self._kept) >= self._most:
            refused = next((each for each, answer in self._kept.items() if not answer.value), None)
            if refused is None and not value:
                return
            del self._kept[next(iter(self._kept)) if refused is None else refused]
        self._kept[digest] = _Answer(value, self._clock() + KEPT_FOR)


async def user_of(api: Reviews, token: str) -> Object | None:
    """Who has this token, in the words of a SubjectAccessReview; None: nobody. Raises ApiProblem."""
    review = await api.create(whole("TokenReview", {}, spec={"token": token}))
    said = review.get("status") or {}
    if not said.get("authenticated"):
        return None
    user = said.get("user") or {}
    return {name: user[name] for name in ("groups", "uid", "extra") if user.get(name)} | {
        "user": user.get("username", "")
    }


async def may(api: Reviews, user: Mapping[str, Any], **attributes: Mapping[str, str]) -> bool:
    """Whether a user may do what `resourceAttributes` or `nonResourceAttributes` say. Raises ApiProblem."""
    access = await api.create(whole("SubjectAccessReview", {}, spec={**user, **attributes}))
    return bool((access.get("status") or {}).get("allowed"))
