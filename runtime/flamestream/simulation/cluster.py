"""Who is started, and started again: the supervisor of a simulated cluster, as Spark and the launcher are of
a real one.

A worker process that ended comes back as a new life with a new id after a while; a coordinator that ended is
replaced while the job runs. Workers connect to the newest coordinator they have heard of. Scheduled faults
strike here.

A split parts the cluster in two: each half has workers, and a coordinator that is replaced when it ends, as
an operator on that side would; frames between the halves wait, and nobody connects across. Journals, sinks,
store and job record are shared by both.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from flamestream.core.coordinator import coordination as c
from flamestream.model.ids import WorkerId
from flamestream.simulation.coordinator_node import CoordinatorNode
from flamestream.simulation.faults import Fault, Moment
from flamestream.simulation.outside.control import ControlLink, break_random, silence_random
from flamestream.simulation.outside.outside import Outside
from flamestream.simulation.process import CLOCKS_BEGIN, Process
from flamestream.simulation.settings import MS, Plan, code_of, edited_coordinator
from flamestream.simulation.worker_node import WorkerNode
from flamestream.simulation.world import World

HOUR = 3_600_000 * MS
MakeWorker = Callable[[WorkerId, int, Callable[[WorkerNode], None]], WorkerNode]
"""Makes a worker's next life, of a version of the code; it tells the given function of its end."""


class Cluster:
    """All processes of one run."""

    inherits: ClassVar[bool] = True
    """Whether coordinators may begin behind a tick: there is none where other code comes by another job, or a start."""

    def __init__(self, world: World, plan: Plan, outside: Outside, make_worker: MakeWorker) -> None:
        self.world = world
        self.outcome: c.Finish | None = None
        self.workers: dict[int, WorkerNode] = {}
        """The newest life at each place."""
        self.coordinators: list[CoordinatorNode] = []
        self.calm = False
        self._make_worker = make_worker
        self._plan = plan
        self._settings = plan.coordinator
        """The first version's; others are asked for."""
        self._outside = outside
        self._lives = 0
        self._version = self._wanted = self._before = 0
        """The code that the job runs, by its record; the newest that somebody has asked for; and the one that
        it ran before."""
        self._made: set[int] = {0}
        """Versions that it has ever run."""
        self._watched_until = 0
        """Until then the newest may be taken back."""
        self._versions: dict[int, int] = {}
        """The code at each place."""
        self._far: frozenset[int] = frozenset()
        """Places of the far half while the cluster is split; none: it is whole."""
        self._places: dict[WorkerId, int] = {}
        self._heads: dict[bool, CoordinatorNode] = {}
        """The coordinator of each half, the far one under True; of a whole cluster, the newest under both."""
        self._due: set[bool] = set()
        """Halves whose next coordinator is being started."""

    def start(self) -> None:
        """Everything begins about now."""
        self._start_coordinator()
        for place in range(self._plan.workers + self._plan.standbys):
            self.world.after(self.world.between(1, 5 * MS), self._start_worker, place)
        if self._plan.stop_at is not None:
            self.world.after(self._plan.stop_at - self.world.now, self._request)
        for number, moment in enumerate(self._plan.upgrades, 1):
            self.world.after(moment - self.world.now, self._upgrade, number)

    @property
    def newest(self) -> CoordinatorNode | None:
        """The coordinator in charge, if one is alive."""
        return self._head(False)

    def _head(self, far: bool) -> CoordinatorNode | None:
        """The coordinator in charge of one half, if it is alive."""
        head = self._heads.get(far)
        return head if head is not None and head.alive else None

    def _is_far(self, worker: WorkerId) -> bool:
        return self._places[worker] in self._far

    # --- workers --------------------------------------------------------------------------------------------

    def _start_worker(self, place: int) -> None:
        version = self._versions.get(place, 0)
        if self.outcome is not None or not self._may_run(version):
            return
        if not self._is_needed():
            self.world.after(20 * MS, self._start_worker, place)
            return
        self._lives += 1
        # Never used twice: what is meant for the life before must not reach this one.
        me = WorkerId(f"w{place}.{self._lives}")
        self._places[me] = place
        node = self._make_worker(me, version, lambda ended: self._worker_ended(place, ended))
        self.workers[place] = node
        if Fault.CLOCK_SKEW in self.world.faults.rates:
            self.world.hits(Fault.CLOCK_SKEW)
            node.skew = self.world.between(-20 * MS, 20 * MS)
        if self.world.hits(Fault.CLOCK_UNSET):
            node.skew = -2 * CLOCKS_BEGIN
        self._connect(node)

    def _may_run(self, version: int) -> bool:
        """Whether somebody runs this code, wants it or may go back to it."""
        return version in (self._version, self._wanted, self._before)

    def _is_needed(self) -> bool:
        """Whether one more worker would have something to do: the launcher starts as many as are wanted."""
        standbys, newest = self._settings.standbys, self.newest
        if standbys is None or newest is None or newest.status is None or not newest.status.wanted:
            return True
        return sum(node.alive for node in self.workers.values()) < newest.status.wanted + standbys

    def _worker_ended(self, place: int, node: WorkerNode) -> None:
        """Back after a while; whoever must know hears of the end, or not."""
        if node.exit is not None:
            self.world.require(
                node.exit.category in ("", "fenced"),
                "core",
                f"{node.name} exits: {node.exit.category} {node.exit.reason}",
            )
            self.world.trace.cover(f"worker.exit {node.exit.category or 'told'}")
        slow = not self.calm and self.world.rng.random() < 0.2  # longer than others wait for it
        self.world.after(self.world.between(1 * MS, 15 * MS) * (12 if slow else 1), self._start_worker, place)
        # Half of the deaths are told, as by Spark or Kubernetes; the others only by silence or a broken link.
        if self.world.rng.random() < 0.5 and (coordinator := self._head(place in self._far)) is not None:
            coordinator.post_later(self.world.between(1, 5 * MS), c.WorkerGone(node.id))

    def _connect(self, node: WorkerNode) -> None:
        """To the newest coordinator of its half; tried again for as long as it takes."""
        if not node.alive or self.outcome is not None:
            return
        # Asked again and again: only so it finds a newer coordinator, or that of another half.
        coordinator = self._head(self._is_far(node.id))
        if node.link is not None and not node.link.broken and node.link.coordinator is coordinator:
            self.world.after(self.world.between(3 * MS, 9 * MS), self._connect, node)
            return
        if self.world.now < node.paused_until:
            self.world.after(node.paused_until - self.world.now, self._connect, node)
            return
        if coordinator is not None:
            if node.link is not None:
                node.link.close()
            node.link = ControlLink(self.world, self._outside.delay, node, coordinator)
        self.world.after(self.world.between(3 * MS, 9 * MS), self._connect, node)

    # --- coordinators ---------------------------------------------------------------------------------------

    def _start_coordinator(self, far: bool = False) -> None:
        """Start the coordinator of one half; if the cluster is whole, of both."""
        self._due.discard(far)
        if self.outcome is not None:
            return
        nonce = f"c{len(self.coordinators) + 1}"
        if self._plan.edited:
            self._settings = self._edited()
        node = self._begun(nonce)
        self._ask(node)
        # The one before is left as it is, a zombie if it lives: fencing has to bear it.
        self.coordinators.append(node)
        self._heads.update(dict.fromkeys((far,) if self._far else (False, True), node))

    def _begun(self, nonce: str) -> CoordinatorNode:
        """A coordinator as it is begun on one machine, with the first version, and asked for all others; or behind a
        tick, as in a cluster: with what runs as far as is known, and the version before, once a worker of that
        comes."""
        if not self.inherits or not self._version or self.world.rng.random() < 0.5:
            return CoordinatorNode(self.world, nonce, self._settings, self._outside, self._finished)
        settings = replace(self._settings_of(self._version), code_told=True)
        node = CoordinatorNode(self.world, nonce, settings, self._outside, self._finished)
        node.asked = self._version
        before = c.UpgradeInherited(self._settings_of(self._before))
        node.post_later(self.world.between(1, 5 * MS), before)
        self.world.trace.cover("coordinator.inherits a tick")
        return node

    def _edited(self) -> c.Settings:
        """Other intervals, another number of workers; and of slots, which must be refused once the job has
        begun."""
        rng, begun = self.world.rng, self._settings.durable and self._outside.records.record is not None
        workers, slots = (
            rng.randint(1, self._plan.workers + self._plan.standbys),
            self._plan.coordinator.slots,
        )
        other = 2 if begun and rng.random() < 0.1 else 1
        return replace(edited_coordinator(rng, self._settings), workers=workers, slots=slots * other)

    def _upgrade(self, version: int) -> None:
        """Somebody has changed the code: workers that have it are started beside the others."""
        if self.outcome is not None:
            return
        self._wanted = version
        for place in range(self._plan.workers + self._plan.standbys):
            self._versions[version * 100 + place] = version
            self.world.after(self.world.between(1, 20 * MS), self._start_worker, version * 100 + place)

    @property
    def is_upgrading(self) -> bool:
        """Whether the code is still to change, or may be taken back."""
        fails = self._plan.job.mistaken and self._version % 2 == 1 and self.world.now < self._watched_until
        return max(self._made) < len(self._plan.upgrades) or fails

    def _ask(self, node: CoordinatorNode) -> None:
        """Tell whoever is in charge of all upgrades that it may not know of."""
        for version in range(node.asked + 1, self._wanted + 1):
            node.asked = version
            node.post(c.UpgradeRequested(self._settings_of(version)))

    def _settings_of(self, version: int) -> c.Settings:
        of_plan = self._plan.coordinator_of(version)
        return replace(
            self._settings, graph=of_plan.graph, inventory=of_plan.inventory, code=of_plan.code,
            drop=of_plan.drop,
        )  # fmt: skip

    def _look_at_the_record(self) -> None:
        """The job may have gone on with other code."""
        record = self._outside.records.record
        for version in range(self._wanted + 1):
            if record is not None and record.code == code_of(version) and version != self._version:
                self.world.trace.cover("tick.made" if version > self._version else "tick.taken back")
                self._before, self._version = self._version, version
                self._made.add(version)
                self._watched_until = self.world.now + self._settings.watch_us + 200 * MS

    def watch(self) -> None:
        """Called now and then: a coordinator that is gone is replaced."""
        self._look_at_the_record()
        for head in dict.fromkeys(node for node in self._heads.values() if node.alive):
            self._ask(head)
        for far in (False, True) if self._far else (False,):
            if self._head(far) is None and far not in self._due:
                self._due.add(far)
                self.world.after(self.world.between(1 * MS, 20 * MS), self._start_coordinator, far)

    def _finished(self, node: CoordinatorNode, finish: c.Finish) -> None:
        """A coordinator has ended by itself."""
        self.world.trace.cover(f"coordinator.{finish.outcome}")
        if finish.outcome == "fenced":
            return
        if "slots" in finish.message and node.settings.slots != self._plan.coordinator.slots:
            self.world.trace.cover("coordinator.refused other slots")
            return  # the edit is taken back, and the job goes on
        if finish.outcome in ("stopped", "drained"):
            # watch() starts the job again, perhaps with another number of workers: no output byte may change
            # by it (invariant 7)
            places = self._plan.workers + self._plan.standbys
            self._settings = replace(self._settings, workers=self.world.rng.randint(1, places))
            return
        self.outcome = finish

    def _request(self) -> None:
        """Somebody stops the job; it is started again."""
        if self.newest is not None:
            self.newest.post(c.Requested(self.world.rng.choice(["stop", "drain"])))

    # --- faults ---------------------------------------------------------------------------------------------

    def strike(self, moment: Moment) -> None:
        """A scheduled fault."""
        if self.calm or self.outcome is not None:
            return
        self.world.trace.note(self.world.now, "fault", moment.fault.name)
        lasts = self.world.between(5 * MS, 150 * MS)
        if not self._strike_process(moment.fault, lasts) and not self._strike_links(moment.fault, lasts):
            self._strike_outside(moment.fault, lasts)

    def heal(self) -> None:
        """No more faults, and what they left behind is put right: the liveness phase."""
        self.calm = True
        self.world.faults.heal()  # first: what follows must not draw new ones
        self._reunite()
        outside = self._outside
        outside.network.heal()
        outside.journals.heal()
        outside.store.heal()
        for link in self._links():
            link.heal()
        for node in [*self.workers.values(), *self.coordinators]:
            node.paused_until = min(node.paused_until, self.world.now)
        for coordinator in self.coordinators:
            coordinator.session_lost_until = 0

    def _strike_process(self, fault: Fault, lasts: int) -> bool:
        workers = [node for node in self.workers.values() if node.alive]
        coordinators = [node for node in self.coordinators if node.alive]
        victims: Sequence[Process] = workers if fault in _OF_WORKERS else coordinators
        if fault is Fault.CLOCK_SET:
            victims = [*workers, *coordinators]
        if fault not in _OF_PROCESSES:
            return False
        if not victims or (fault is Fault.SPLIT_BRAIN and (self._far or len(self.workers) < 2)):
            return True
        victim = self.world.rng.choice(victims)
        self.world.faults.happened(fault)
        match fault:
            case Fault.WORKER_CRASH | Fault.COORDINATOR_CRASH:
                victim.crash()
            case Fault.WORKER_PAUSE | Fault.COORDINATOR_PAUSE:
                victim.pause(lasts)
            case Fault.CLOCK_JUMP:
                victim.skew += self.world.between(-300 * MS, 300 * MS)
            case Fault.CLOCK_SET:
                victim.skew += self.world.between(1, 8) * HOUR * self.world.rng.choice([-1, 1])
            case Fault.SECOND_COORDINATOR:
                self._start_coordinator()
            case Fault.SPLIT_BRAIN:
                self._split(lasts)
            case Fault.SESSION_LOSS:
                assert isinstance(victim, CoordinatorNode)
                victim.session_lost_until = self.world.now + lasts
        return True

    def _split(self, lasts: int) -> None:
        """Some workers find themselves in another half, with a coordinator of its own."""
        places = sorted(self.workers)
        # Before the coordinator starts, which is in charge of the far half alone then.
        self._far = frozenset(self.world.rng.sample(places, self.world.rng.randint(1, len(places) - 1)))
        self._start_coordinator(far=True)
        lasts = lasts // self.world.rng.choice([1, 1, 8])
        for link in self._links():
            if self._is_far(link.worker.id):
                link.close()
        self._outside.network.split(self._is_far, lasts)
        self.world.after(lasts, self._reunite)

    def _reunite(self) -> None:
        """Put either coordinator in charge of all again; the other one does not know yet that it is not."""
        if self._far:
            self._far = frozenset()
            self._heads = dict.fromkeys((False, True), self._heads[self.world.rng.random() < 0.5])

    def _strike_links(self, fault: Fault, lasts: int) -> bool:
        """Whether it is a fault of links."""
        match fault:
            case Fault.LINK_BREAK:
                self._outside.network.break_random()
            case Fault.PARTITION | Fault.PARTITION_ONE_WAY:
                self._outside.network.partition_random(fault is Fault.PARTITION_ONE_WAY, lasts)
            case Fault.CONTROL_BREAK:
                break_random(self.world, self._links())
            case Fault.CONTROL_SILENCE:
                silence_random(self.world, self._links(), lasts)
            case _:
                return False
        return True

    def _strike_outside(self, fault: Fault, lasts: int) -> None:
        outside, chance = self._outside, self.world.rng
        match fault:
            case Fault.JOURNAL_FULL:
                outside.journals.fill_random(lasts)
            case Fault.JOURNAL_DAMAGE:
                outside.journals.damage_random()
            case Fault.STORE_FULL:
                outside.store.fill(lasts)
            case Fault.STORE_DAMAGE:
                segments = sorted(
                    name
                    for name in outside.store.objects
                    if name.startswith("segments/") or chance.random() < 0.1
                )
                if segments:
                    outside.store.damage(chance.choice(segments))
            case Fault.CONSUMER_LOSS:
                if outside.consumers[chance.choice(sorted(outside.consumers))].lose_random():
                    self.world.faults.happened(fault)
            case Fault.FUNCTION_CHANGE:
                if (drift := self._plan.job.drift) is not None:
                    drift.changes += 1
                    self.world.faults.happened(fault)

    def _links(self) -> list[ControlLink]:
        return [node.link for node in self.workers.values() if node.alive and node.link is not None]


_OF_WORKERS = (Fault.WORKER_CRASH, Fault.WORKER_PAUSE, Fault.CLOCK_JUMP)
_OF_PROCESSES = frozenset({
    Fault.WORKER_CRASH, Fault.WORKER_PAUSE, Fault.CLOCK_JUMP, Fault.CLOCK_SET, Fault.COORDINATOR_CRASH,
    Fault.COORDINATOR_PAUSE, Fault.SECOND_COORDINATOR, Fault.SPLIT_BRAIN, Fault.SESSION_LOSS,
})  # fmt: skip
