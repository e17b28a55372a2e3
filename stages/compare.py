"""compare: every method side by side, means and standard deviations over seeds."""

from pathlib import Path
from typing import Annotated

import typer

from pfl.artifacts import write_text
from pfl.comparison import compare as gather
from pfl.comparison import comparison_csv, comparison_json, rounds_of
from pfl.comparison_figures import draw_comparison, draw_rounds
from stages._run import run
from stages._section import read_section


def compare(
    methods: Annotated[str, typer.Option(help="FILE:SECTION whose keys are the methods.")],
    seeds: Annotated[str, typer.Option(help="FILE:SECTION that lists the seeds.")],
    runs: Annotated[Path, typer.Option(help="Folder with <method>/seed-<seed>/ of each run.")],
    fedhip: Annotated[Path, typer.Option(help="Folder of FedHiP's report.")],
    report: Annotated[
        Path,
        typer.Option(help="Output folder: comparison.csv, comparison.json, and two figures."),
    ],
) -> None:
    """Compare the methods' last rounds, and FedHiP's heads."""
    names, numbers = list(read_section(methods, dict)), read_section(seeds, list)
    table = gather(runs, names, numbers, fedhip)
    write_text(report / "comparison.csv", comparison_csv(table))
    write_text(report / "comparison.json", comparison_json(table))
    draw_comparison(report / "comparison.png", table)
    curves = {
        name: [
            rounds_of(runs / name / f"seed-{seed}" / "rounds.csv", "local-test") for seed in numbers
        ]
        for name in names
    }
    draw_rounds(report / "rounds.png", curves)


if __name__ == "__main__":
    run(compare)
