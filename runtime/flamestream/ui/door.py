"""The door of a page, as a port: who asks, and what they may see and do. That of one machine is gate.py.

Does not: know HTTP beyond headers, or what a job is.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol

from flamestream.ui.source import Kind

What = Literal["job", "logs"] | Kind
"""The parts of a job that are asked for."""


class Cookie(NamedTuple):
    """A cookie that a browser shows from its login on."""

    name: str
    value: str


class Caller(Protocol):
    """Somebody who was let in. Raises Refused (403) for what they may not."""

    @property
    def name(self) -> str:
        """The same in all requests of the same caller."""
        ...

    async def check(self, job: str, what: What, *, does: bool = False) -> None:
        """Return if they may look at this of a job, or (`does`) start it."""
        ...

    async def listed(self) -> Callable[[str], bool]:
        """Whether a job, by its name, is in the list that they see."""
        ...


class Door(Protocol):
    """Raises Refused, with the status of HTTP that says why."""

    def is_ours(self, host: str) -> bool:
        """Whether a request is to a name of this server's."""
        ...

    async def enter(self, headers: Mapping[str, str], cookies: Mapping[str, str], *, changes: bool) -> Caller:
        """Who makes a request to the API. `changes`: it starts something."""
        ...

    async def login(self, headers: Mapping[str, str], token: str) -> Cookie:
        """A cookie for who has shown a token."""
        ...


def from_here(headers: Mapping[str, str]) -> bool:
    """Whether a request that changes something comes from a page of this server, or from a program.

    A browser says so itself (`Sec-Fetch-Site`), also behind proxies that call the server by another name; an old one
    tells its page's address.
    """
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("Origin")
    return origin is None or origin.partition("://")[2] == headers.get("Host")
