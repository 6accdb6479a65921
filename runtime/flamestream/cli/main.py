"""The command line: `flamestream COMMAND`. Each command is a module; this one puts them together.

Does not: start anything before it knows what is asked (commands import Spark and servers when they need them).
"""

from collections.abc import Sequence

from flamestream.cli import commands, frame

app = frame.command_line("flamestream", "Streaming jobs as graphs of pure functions, exactly once in milliseconds.")
commands.add_to(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point. Leaves with one of `ExitCode`."""
    frame.run(app, arguments)


if __name__ == "__main__":
    main()
