"""Which click an advert led to: the same user's, at most five seconds behind the view."""

from datetime import datetime

import flamestream as fs


@fs.event
class Click:
    id: str
    user: str
    page: str
    at: datetime


@fs.event
class View:
    id: str
    user: str
    advert: str
    at: datetime


@fs.event
class Led:
    advert: str
    page: str
    user: str


def led(pair: tuple[View, Click]) -> Led:
    view, click = pair
    return Led(view.advert, click.page, click.user)


graph = fs.Graph("led-to")
views = graph.source("views", View, at="at", late="10m")
clicks = graph.source("clicks", Click, at="at", late="10m")
pairs = views.join(clicks, on="user", within=("0s", "5s"))
pairs.map(led).sink("led", key="advert")
pairs.late.sink("late")
