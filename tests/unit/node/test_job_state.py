"""What is said of whoever runs a job."""

from flamestream.machine.process_identity import ProcessIdentity
from flamestream.node.job_state import state_of
from flamestream.node.run_folder import RunInfo


def test_batches_of_spark_have_no_coordinator_that_could_be_down() -> None:
    me = ProcessIdentity.of_this_process()
    said = state_of(RunInfo(job="sums", manifest="job.yaml", launcher=me, address=""), None)
    assert said == f"job 'sums' runs in batches of Spark: process {me.pid}"
    said = state_of(RunInfo(job="sums", manifest="job.yaml", launcher=me, address="127.0.0.1:1"), None)
    assert "the coordinator is down" in said
