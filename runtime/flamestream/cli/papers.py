"""`flamestream papers`: the experiments of the papers, computed here."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flamestream.cli.output import Json, answer
from flamestream.job.exit_codes import ExitCode
from flamestream.model.errors import ManifestError


def command(
    experiment: Annotated[
        str,
        typer.Argument(
            help="Which one, or its figure: fig6, poster7. Left out: all are listed.", show_default=False
        ),
    ] = "",
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Write it to this file as a picture.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Show an experiment of the papers that FlameStream follows, beside what the paper says: found by
    exhaustive search, or printed from the core that ships, in seconds.

    Example: [bold]flamestream papers abc-bac[/bold]. Exit code 3 if what is claimed of FlameStream was not
    found.
    """
    # the simulator and the core are no part of other commands' start
    from flamestream.papers.experiments import EXPERIMENTS, FIGURES

    if not experiment:
        if svg is not None:
            raise ManifestError("--svg is the picture of one experiment: name it")
        lines = {name: each.line for name, each in EXPERIMENTS.items()}
        answer(lines, "\n".join(f"{name:<11}{line}" for name, line in lines.items()), json)
        return
    name = FIGURES.get(experiment, experiment)
    if name not in EXPERIMENTS:
        raise ManifestError(f"there is no experiment {experiment!r}: choose one of {', '.join(EXPERIMENTS)}")
    report = EXPERIMENTS[name].run()
    if svg is not None:
        _drawn(svg, report.svg)
    answer(asdict(report), report.text, json)
    if not report.holds:
        raise typer.Exit(ExitCode.DIFFERENCE)


def _drawn(file: Path, picture: str) -> None:
    try:
        file.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise ManifestError(
            f"--svg {file}: {error.strerror or error}; name a file that can be written"
        ) from error
