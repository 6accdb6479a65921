"""Visits: a user's clicks, until half an hour has passed without one."""

from datetime import datetime

import flamestream as fs


@fs.event
class Click:
    id: str
    user: str
    page: str
    at: datetime


@fs.event
class Visit:
    user: str
    begin: datetime
    pages: tuple[str, ...]


def visit(session: fs.Windowed[str, tuple[Click, ...]]) -> Visit:
    return Visit(session.key, session.start, tuple(click.page for click in session.value))


graph = fs.Graph("sessions")
clicks = graph.source("clicks", Click, at="at", late="10m")
sessions = clicks.window(fs.session("30m"), key="user").collect()
sessions.map(visit).sink("visits", key="user")
sessions.late.sink("late")
