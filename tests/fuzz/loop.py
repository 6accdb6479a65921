"""The process that fuzzes: all targets loaded and instrumented once, and a fork of it under libFuzzer
(atheris) for each run.

A run is a line of JSON on standard input (Run); its answer a line with its exit code on standard output. What
libFuzzer says goes to the run's own file.

Does not: keep folders, or say how to repeat what was found (run.py starts it).
"""

import os
import sys

import msgspec

INSTRUMENTED = [
    "flamestream.model", "flamestream.core.protocol.job_record", "flamestream.core.protocol.messages",
    "flamestream.job.manifest", *(f"flamestream.{name}" for name in (
        "connectors.files.lines", "connectors.http.keys", "connectors.http.sink", "connectors.kafka.avro",
        "connectors.kafka.formats", "connectors.kafka.items", "connectors.kafka.plain", "connectors.kit.rows",
        "connectors.postgres.source", "connectors.redis.source",
        "connectors.rolling.chain", "connectors.rolling.segments", "connectors.socket.sink",
        "connectors.socket.source", "fenced.log", "fenced.tail", "job.located", "journal.batches",
        "journal.file", "journal.seal", "net.framing", "net.handshake", "net.http_connection",
        "net.http_reader", "net.http_server", "store.segment",
    )),
    "yaml",
]  # fmt: skip
"""Whose branches guide the search: what the targets call. Each module costs some 50 ms of a start."""


class Run(msgspec.Struct, frozen=True):
    """One fork's work."""

    target: str
    variant: str
    """"" for the product as it is."""
    arguments: list[str]
    """libFuzzer's."""
    said: str
    """The file that it writes to."""


def main() -> None:
    """Until standard input ends."""
    import atheris  # type: ignore[import-untyped]  # not where its wheels are missing (run.py)

    with atheris.instrument_imports(include=INSTRUMENTED, enable_loader_override=False):
        import fuzz.targets
        import fuzz.variants

    for line in sys.stdin:
        run = msgspec.json.decode(line, type=Run)
        child = os.fork()
        if child == 0:
            _redirected(run.said)
            if run.variant:
                fuzz.variants.VARIANTS[run.variant].plant(atheris.instrument_func)
            atheris.Setup(["fuzz", *run.arguments], fuzz.targets.TARGETS[run.target].check)
            atheris.Fuzz()  # ends the process
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _redirected(said: str) -> None:
    """This process' words."""
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(old, new)


if __name__ == "__main__":
    main()
