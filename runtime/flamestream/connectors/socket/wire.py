"""The frames of a socket sink. docs/reference/wire-protocol.md is the contract; this is its Python.

Each is a msgpack array that begins with the frame's name, behind four bytes of length (framing.py). Bundles
are [slot, sequence, t_last, items].

>>> decode_question(encode(("deliver", (1, 1), 7, [(3, 1, b"t", b"items")])))
DeliverFrame(fence=Fence(attempt=1, layout=1), number=7, bundles=[(3, 1, b't', b'items')])

Keeps: a garbage frame is a decode error and never a strange object.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from flamestream.fenced.log import Delivered
from flamestream.model.decoding import msgpack_decoder
from flamestream.model.ids import Fence, Slot

PROTOCOL: Final = 1
MAX_FRAME: Final = 1 << 30


class OpenFrame(msgspec.Struct, frozen=True, array_like=True, tag="open"):
    """Worker to consumer: refuse everything older than `fence` for `slots`, and give their last bundles."""

    version: int
    fence: Fence
    job: str
    sink: str
    writer: str
    slots: list[Slot]


class DeliverFrame(msgspec.Struct, frozen=True, array_like=True, tag="deliver"):
    """Worker to consumer."""

    fence: Fence
    number: int
    bundles: list[Delivered]


class OpenedFrame(msgspec.Struct, frozen=True, array_like=True, tag="opened"):
    """Consumer to worker: the slots are open; the last bundle of each that has one."""

    fence: Fence
    last: list[Delivered]


class AcknowledgedFrame(msgspec.Struct, frozen=True, array_like=True, tag="acknowledged"):
    """Consumer to worker: delivery `number` is durable."""

    fence: Fence
    number: int


class FencedFrame(msgspec.Struct, frozen=True, array_like=True, tag="fenced"):
    """Consumer to worker: `fence` is older than what has been opened."""

    fence: Fence


class FailedFrame(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """Consumer to worker: this cannot be taken, ever; `category` says who must act (model/errors.py)."""

    fence: Fence
    category: Annotated[str, Meta(pattern="^(user|corrupt|bug)$")]
    message: str


Question = OpenFrame | DeliverFrame
Answer = OpenedFrame | AcknowledgedFrame | FencedFrame | FailedFrame

encode: Final = msgspec.msgpack.Encoder().encode
decode_question: Final[Any] = msgpack_decoder(Question)
decode_answer: Final[Any] = msgpack_decoder(Answer)
