"""Each click once: a browser that gets no answer sends it again."""

from datetime import datetime

import flamestream as fs


@fs.event
class Click:
    id: str
    user: str
    page: str
    at: datetime


graph = fs.Graph("first-clicks")
clicks = graph.source("clicks", Click, at="at", late="10m").dedup("id", within="1h")
clicks.sink("clicks", key="user")
clicks.late.sink("late")
