"""What a worker's output counts, and when."""

from flamestream.core.dataflow.barrier import Barrier
from flamestream.core.dataflow.outputs import Outputs
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.core.protocol.events import BundlesAcknowledged
from flamestream.model.ids import Attempt, Fence, LayoutVersion, SinkName, Slot
from flamestream.model.meta import meta_of
from flamestream.model.time import END, START, Time

FENCE = Fence(Attempt(1), LayoutVersion(1))
SINK = SinkName("out")


def test_a_call_that_is_acknowledged_twice_is_news_once() -> None:
    outputs = Outputs(FENCE, {3: SINK}, START, 1, REFERENCE)
    barrier = outputs.barriers[3]
    assert isinstance(barrier, Barrier)
    barrier.hold(meta_of(Time(5), 0), Slot(0), "delivered")
    barrier.hold(meta_of(Time(6), 0), Slot(0), "waiting")
    outputs.release(Time(7))
    (call,) = outputs.calls()
    acknowledged = BundlesAcknowledged(FENCE, SINK, call.number)
    assert outputs.acknowledged(acknowledged) == (5, 1)
    assert outputs.acknowledged(acknowledged) == (END, 0)
