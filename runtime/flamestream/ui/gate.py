"""Who may look: whoever brings the token that the server's address has, from a page of this server.

A browser brings it once, out of the address's fragment (which no server and no log is told), and a cookie from then on;
programs bring it as a bearer token.

Keeps: a page of another site learns nothing, and starts nothing: names of hosts are compared (against DNS rebinding),
and so is where a request comes from. Does not: know what is asked for.
"""

import hmac
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

LOCAL: Final = ("127.0.0.1", "localhost", "::1")
"""Names of a server that only this machine reaches."""


class Gate:
    """The gate of one server. `hosts`: names that it is called by. `cookie`: a name that no other server of the
    same host has, for browsers tell cookies apart by hosts alone."""

    def __init__(self, token: str, hosts: Collection[str], cookie: str) -> None:
        self._token, self._hosts, self.cookie = token, hosts, cookie

    def proves(self, token: str) -> bool:
        """Whether somebody has the token."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def refuses(
        self, headers: Mapping[str, str], cookies: Mapping[str, str], *, changes: bool
    ) -> HTTPStatus | None:
        """The reason why a request to the API is refused; None: it is not. `changes`: it starts something."""
        if not self.is_ours(headers.get("Host", "")):
            return HTTPStatus.MISDIRECTED_REQUEST
        if changes and not self._same_origin(headers):
            return HTTPStatus.FORBIDDEN
        scheme, _, bearer = headers.get("Authorization", "").partition(" ")
        token = bearer if scheme.lower() == "bearer" else cookies.get(self.cookie, "")
        return None if self.proves(token) else HTTPStatus.UNAUTHORIZED

    def is_ours(self, host: str) -> bool:
        """Whether a request is to a name of this server's."""
        try:
            return urlsplit(f"//{host}").hostname in self._hosts
        except ValueError:  # no name at all
            return False

    def _same_origin(self, headers: Mapping[str, str]) -> bool:
        origin = headers.get("Origin")
        return origin is None or urlsplit(origin).netloc == headers.get("Host")
