"""The door of a page of one machine: whoever brings the token that the server's address has may look at all of it.

A browser brings it once, out of the address's fragment (which no server and no log is told), and a cookie from then on;
programs bring it as a bearer token.

Keeps: a page of another site learns nothing, and starts nothing: names of hosts are compared (against DNS rebinding),
and so is where a request comes from. Does not: know what is asked for.
"""

import hmac
from collections.abc import Callable, Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from flamestream.ui.door import Cookie, What, from_here
from flamestream.ui.source import Refused

LOCAL: Final = ("127.0.0.1", "localhost", "::1")
"""Names of a server that only this machine reaches."""
NO_TOKEN: Final = (
    "open the address that `flamestream ui` has printed: it has a token, and this request has not"
)


class Owner:
    """`door.Caller`: who has the token may see and do all that the page can."""

    name = "owner"

    async def check(self, job: str, what: What, *, does: bool = False) -> None:
        """Return always."""

    async def listed(self) -> Callable[[str], bool]:
        return lambda job: True


class Gate:
    """`door.Door` of one server. `hosts`: names that it is called by. `cookie`: a name that no other server of the
    same host has, for browsers tell cookies apart by hosts alone."""

    def __init__(self, token: str, hosts: Collection[str], cookie: str) -> None:
        self._token, self._hosts, self._cookie = token, hosts, cookie

    def is_ours(self, host: str) -> bool:
        """Whether a request is to a name of this server's."""
        return host_in(host) in self._hosts

    async def enter(self, headers: Mapping[str, str], cookies: Mapping[str, str], *, changes: bool) -> Owner:
        """Who makes a request to the API."""
        if changes and not from_here(headers):
            raise Refused(403, "another site may start nothing here")
        self._prove(bearer(headers) or cookies.get(self._cookie, ""))
        return Owner()

    async def login(self, headers: Mapping[str, str], token: str) -> Cookie:
        """A cookie for who has shown the token."""
        self._prove(token)
        return Cookie(self._cookie, token)

    def _prove(self, token: str) -> None:
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise Refused(401, NO_TOKEN)


def bearer(headers: Mapping[str, str]) -> str:
    """The bearer token of a request; "": it has none."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def host_in(host: str) -> str:
    """The name in a header `Host`, without its port; "": there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # no name at all
        return ""
