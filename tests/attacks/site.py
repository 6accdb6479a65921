"""What an attacker is told of the job that it attacks: as much as it could know in its place, and where to
be."""

from typing import Any

import msgspec

from flamestream.loop.reactor import EpollReactor


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """One job's doors. An attack uses those that its heading says it has found."""

    job: str
    inlet: int
    """Port of the HTTP source."""
    outlet: int
    """Port of the sink of events."""
    token: str
    """That the HTTP source asks for."""
    coordinator: str
    """host:port, shared by all jobs of the operator."""
    workers_token: str
    """That the job's workers prove themselves with."""
    worker_ports: tuple[int, ...]
    """Where its workers listen for each other."""
    lines: str
    """A folder that the job watches for JSON lines."""
    tables: str
    """And for Parquet."""
    zookeeper: str
    """host:port of the job records' home, without the login."""


class WithToken:
    """As a proved worker reaches the coordinator (control_words.Hostile)."""

    def __init__(self, site: Site, loop: EpollReactor) -> None:
        self.loop, self.name, self.address, self.token = loop, site.job, site.coordinator, site.workers_token


def encoded(site: Site) -> str:
    """For a command line."""
    return msgspec.json.encode(site).decode()


def decoded(text: str) -> Any:
    return msgspec.json.decode(text, type=Site)
