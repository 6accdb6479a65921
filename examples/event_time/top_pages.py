"""The pages with the most clicks of the last ten minutes, every five minutes."""

from datetime import datetime

import flamestream as fs


@fs.event
class Click:
    id: str
    user: str
    page: str
    at: datetime


graph = fs.Graph("top-pages")
clicks = graph.source("clicks", Click, at="at", late="10m")
tops = clicks.window(fs.sliding("10m", every="5m"), key="page").top(3, by=fs.size)
tops.sink("tops", key="start")
tops.late.sink("late")
