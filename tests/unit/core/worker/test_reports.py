"""Reports: what a worker tells of its progress, counts and drain, and the moments at which it does."""

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.model.ids import (
    WorkerId,
)
from flamestream.model.meta import meta_of
from flamestream.model.payload import ErrorValue
from flamestream.model.time import END, Instant, Time, Timestamp
from support.core.core_cluster import DEAD, CoreCluster
from support.core.letters import OUT, F, letters, letters_cluster, messages_of


def test_drained_it_reads_nothing_more_and_finishes_what_it_has() -> None:
    cluster = letters_cluster()
    cluster.say(msg.Drain(cluster.fence))
    cluster.run()
    entered = len(cluster.journals[F])
    cluster.feed(0, *"defg")
    cluster.run()
    assert len(cluster.journals[F]) == entered
    assert cluster.delivered() == cluster.expected()
    assert not any(worker.hello("x:1").ready for worker in cluster.workers.values()), (
        "a coordinator that adopts it must recover instead"
    )


def test_a_report_says_that_it_reads_nothing_more() -> None:
    cluster = letters_cluster(workers=1, heartbeat=1)
    assert not cluster.heard(msg.Progress)[-1].drained
    cluster.say(msg.Drain(cluster.fence))
    cluster.run()
    assert cluster.heard(msg.Progress)[-1].drained
    cluster.recover()
    assert not cluster.heard(msg.Progress)[-1].drained, "a new attempt reads again"


def test_a_report_says_what_a_replay_took_once_all_that_had_entered_is_through_again() -> None:
    cluster = letters_cluster(heartbeat=1)
    cluster.held.add(act.ReadRun)
    cluster.recover()
    cluster.run()
    assert {told.replay_us for told in cluster.heard(msg.Progress)} == {0}
    cluster.held.clear()
    cluster.run()
    entered = max(entry.time for entry in cluster.journals[F])
    took = [(told.minimal > entered, told.replay_us) for told in cluster.heard(msg.Progress)]
    assert {through for through, us in took if us} == {True}
    assert {us > 0 for through, us in took if through} == {True}


def test_what_all_of_the_input_has_come_to_is_told_before_the_last_acceptance() -> None:
    cluster = letters_cluster(heartbeat=3_600_000_000)
    cluster.feed(0, *"defg")
    cluster.end()
    cluster.run()
    before = len(cluster.heard(msg.Progress))
    cluster.save()
    told = cluster.heard(msg.Progress)[before:]
    for worker in cluster.workers:
        said = [type(message) for name, message in cluster.told if name == worker]
        assert said[said.index(msg.Accepted) - 1] is msg.Progress
    assert sum(each.items_in for each in told) == sum(each.items_out for each in told) == 8 + 4


def test_a_clock_that_is_set_back_delays_no_report_and_no_probe() -> None:
    cluster = letters_cluster(heartbeat=1_000, probe=1_000)
    name, instant = WorkerId("w0"), 1_000_000
    for now in (3_600_000_000, 1, 7_200_000_000, 2):
        instant += 1_000
        actions = cluster.workers[name].step(Timestamp(now), Instant(instant), [ev.Woken()])
        assert messages_of(actions, msg.Progress) and [
            action for action in actions if isinstance(action, act.ToPeer)
        ], now
        assert not messages_of(
            cluster.workers[name].step(Timestamp(now), Instant(instant + 999), [ev.Woken()]), msg.Progress
        )


def test_reports_to_a_coordinator_of_many_jobs_come_more_rarely_than_heartbeats() -> None:
    cluster = letters_cluster(heartbeat=1_000, report=5_000)
    worker, instant, told = cluster.workers[WorkerId("w0")], 1_000_000, 0
    for _ in range(20):
        instant += 1_000
        told += len(messages_of(worker.step(Timestamp(0), Instant(instant), [ev.Woken()]), msg.Progress))
    assert told == 4


def test_stamps_go_on_upwards_when_the_clock_is_set_back() -> None:
    cluster = letters_cluster()
    for now in (7_200_000_000, 1_000):
        cluster.now = Timestamp(now)
        cluster.feed(0, *"xyz")
        cluster.run()
    times = [entry.time for entry in cluster.journals[F]]
    assert times == sorted(set(times)) and cluster.delivered() == cluster.expected()


def test_the_end_is_told_when_everything_before_it_is_through() -> None:
    cluster = letters_cluster(heartbeat=1)
    assert not any(progress.ended for progress in cluster.heard(msg.Progress))
    cluster.held.add(act.Append)
    cluster.feed(0, "d")
    cluster.end()
    cluster.run()
    for name in cluster.workers:
        assert not messages_of(cluster.step(name, ev.Woken()), msg.Progress)[0].ended, (
            "the last run is not durable yet"
        )
    cluster.held.clear()
    cluster.run()
    for name in cluster.workers:
        (progress,) = messages_of(cluster.step(name, ev.Woken()), msg.Progress)
        assert progress.ended and progress.minimal == progress.settled == progress.oldest == END
    cluster.check()


def test_a_report_says_how_much_and_what_is_wrong() -> None:
    cluster = letters_cluster(workers=1, heartbeat=1)
    name = WorkerId("w0")
    (progress,) = messages_of(
        cluster.step(name, ev.JournalFailed(cluster.fence, F, "disk full")), msg.Progress
    )
    assert (progress.items_in, progress.items_out, progress.problem) == (8, 8, "disk full")
    (progress,) = messages_of(cluster.step(name, ev.JournalAppended(cluster.fence, F, Time(1))), msg.Progress)
    assert progress.problem == ""


def test_what_is_not_acknowledged_is_not_settled() -> None:
    cluster = letters_cluster(workers=1, heartbeat=1)
    cluster.held.add(act.Deliver)
    before = cluster.heard(msg.Progress)[-1]
    cluster.feed(0, "d")
    cluster.run()
    (progress,) = messages_of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Progress)
    assert before.settled <= progress.settled < progress.minimal


def test_an_item_is_in_flight_until_its_bundle_is_acknowledged() -> None:
    cluster = letters_cluster(workers=1, heartbeat=1)
    before = cluster.heard(msg.Progress)[-1]
    cluster.held.add(act.Deliver)
    cluster.feed(0, "d", "e")
    cluster.run()
    (progress,) = messages_of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Progress)
    assert progress.in_flight == 2
    assert progress.bundles == before.bundles
    cluster.held.clear()
    cluster.run()
    (progress,) = messages_of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Progress)
    assert progress.in_flight == 0
    assert progress.bundles > before.bundles


def test_runs_and_acknowledged_bundles_are_counted_over_all_attempts() -> None:
    cluster = letters_cluster(workers=1, heartbeat=1)
    entered = sum(len(entries) for entries in cluster.journals.values())
    cluster.recover()
    cluster.feed(0, "d")
    cluster.run()
    (progress,) = messages_of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Progress)
    replayed = entered
    assert progress.runs == entered + replayed + 1
    assert progress.bundles == sum(
        len(action.bundles) for _, action in cluster.done if isinstance(action, act.Deliver)
    )


def test_a_record_that_could_not_be_read_is_an_error_item() -> None:
    cluster = CoreCluster(letters(), 2, 3, dead_letter=DEAD).recover()
    cluster.feed(0, "a", ErrorValue("files", "UnicodeDecodeError", "x.txt is not UTF-8", "docs", 1), "b")
    cluster.end()
    cluster.run()
    cluster.check()
    assert sum(map(len, cluster.delivered()[DEAD].values())) == 1


def test_a_worker_without_a_part_says_that_it_is_not_ready() -> None:
    cluster = CoreCluster(letters(), 1)
    hello = cluster.workers[WorkerId("w0")].hello("x:1")
    assert (hello.fence, hello.ready, hello.graph) == ((0, 0), False, cluster.graph.identity)


def test_an_invalidated_error_holds_nothing() -> None:
    cluster = CoreCluster(letters(), 1).recover()
    cluster.run()
    worker = cluster.workers[WorkerId("w0")]
    error = ErrorValue("m.f", "ValueError", "no")
    for gone in (False, True):
        worker.error(meta_of(Time(1 << 40), 0), error, gone)
    cluster.end()
    cluster.run()
    assert cluster.complete


def test_at_least_once_delivers_again_what_is_replayed() -> None:
    cluster = CoreCluster(letters(), 2, 1, exactly_once=False).recover()
    cluster.feed(0, *"abc")
    cluster.run()
    cluster.recover()
    cluster.run()
    assert sum(map(len, cluster.delivered()[OUT].values())) == 6
