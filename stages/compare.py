"""compare: every method side by side, means and standard deviations over seeds."""

from pathlib import Path
from typing import Annotated

import typer

from pfl.artifacts import write_text
from pfl.comparison import compare as gather
from pfl.comparison import comparison_csv, comparison_json, rounds_of, summary_json
from pfl.comparison_figures import draw_comparison, draw_rounds
from pfl.vocabulary import LOCAL_TEST, PERSONALIZED, UPLOAD_BYTES
from stages._run import LARGEST_SEED, run

LEVEL = f"fedhip:{PERSONALIZED}"  # what the methods with rounds are seen against


def compare(
    methods: Annotated[list[str], typer.Option(help="A method; may be given again.")],
    seeds: Annotated[
        list[int], typer.Option(min=0, max=LARGEST_SEED, help="A seed; may be given again.")
    ],
    runs: Annotated[Path, typer.Option(help="Folder with <method>/seed-<seed>/ of each run.")],
    fedhip: Annotated[Path, typer.Option(help="Folder of FedHiP's report.")],
    report: Annotated[
        Path,
        typer.Option(
            help="Output folder: comparison.csv, comparison.json, summary.json and two figures."
        ),
    ],
) -> None:
    """Compare the methods' last rounds, and FedHiP's heads."""
    table = gather(runs, methods, seeds, fedhip)
    write_text(report / "comparison.csv", comparison_csv(table))
    write_text(report / "comparison.json", comparison_json(table))
    draw_comparison(report / "comparison.png", table)
    write_text(report / "summary.json", summary_json(table))
    accuracy, upload = (
        {
            name: [rounds_of(runs / name / f"seed-{seed}" / "rounds.csv", column) for seed in seeds]
            for name in methods
        }
        for column in (LOCAL_TEST, UPLOAD_BYTES)
    )
    level = next(row for row in table if row.method == LEVEL).entries[LOCAL_TEST].mean
    draw_rounds(report / "rounds.png", accuracy, upload, (LEVEL, level))


if __name__ == "__main__":
    run(compare, "report")
