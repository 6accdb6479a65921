"""Layout: which worker has which slots and fronts, and which one hosts the acker. It changes only at a
recovery."""

from typing import Annotated

import msgspec
from msgspec import Meta

from flamestream.model.ids import MAX_ATTEMPT, Fence, LayoutVersion, Slot, WorkerId
from flamestream.model.slot import MAX_SLOTS
from flamestream.model.time import MAX_FRONTS, FrontId


class Layout(msgspec.Struct, frozen=True):
    """`owners[slot]` has the slot; `fronts[i]` is the owner of front `i`."""

    version: Annotated[LayoutVersion, Meta(ge=0, lt=MAX_ATTEMPT)]
    owners: Annotated[tuple[WorkerId, ...], Meta(min_length=1, max_length=MAX_SLOTS)]
    fronts: Annotated[tuple[WorkerId, ...], Meta(max_length=MAX_FRONTS)]
    acker: WorkerId

    @property
    def workers(self) -> tuple[WorkerId, ...]:
        """Every worker with a part in the layout, sorted."""
        return tuple(sorted({*self.owners, *self.fronts, self.acker}))

    def slots_of(self, worker: WorkerId) -> tuple[Slot, ...]:
        """The slots of `worker`, ascending."""
        return tuple(Slot(slot) for slot, owner in enumerate(self.owners) if owner == worker)

    def fronts_of(self, worker: WorkerId) -> tuple[FrontId, ...]:
        """The fronts of `worker`, ascending."""
        return tuple(FrontId(front) for front, owner in enumerate(self.fronts) if owner == worker)


class Assignment(msgspec.Struct, frozen=True):
    """A layout under the fence that its messages carry."""

    fence: Fence
    layout: Layout
