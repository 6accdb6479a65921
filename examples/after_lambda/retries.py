"""Each order gets a voucher by chance, and the price that a service knows, however often that is asked.

The voucher is drawn from the order's place in the order of all, so a replay and each try have the same one.
The service does once what it is asked for with one id; of several answers the first journalled one counts.
"""

from urllib.request import Request, urlopen

import msgspec

import flamestream as fs

SERVICE = "http://127.0.0.1:8008"


@fs.event
class Order:
    id: str
    article: str


@fs.event
class Drawn:
    order: str
    article: str
    voucher: str
    percent: int


@fs.event
class Priced:
    order: str
    voucher: str
    percent: int
    cents: int


def drawn(order: Order, at: fs.At) -> Drawn:
    return Drawn(order.id, order.article, at.uuid(), int(30 * at.random()))


@fs.call(timeout="5s", fronts=2)  # two workers share the calls
def priced(order: Drawn, call: fs.Call) -> Priced:
    asked = f"{SERVICE}/price/{order.article}/{order.voucher}"
    with urlopen(Request(asked, headers={"Idempotency-Key": call.id}), timeout=5) as reply:
        cents = msgspec.json.decode(reply.read(), type=int)
    return Priced(order.order, order.voucher, order.percent, cents * (100 - order.percent) // 100)


graph = fs.Graph("retries")
orders = graph.source("orders", Order)
orders.map(fs.at(drawn)).call(priced, key="order").sink("priced", key="order")
