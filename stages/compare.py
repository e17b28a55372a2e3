"""compare: every method side by side, and whether their differences are luck."""

from pathlib import Path
from typing import Annotated

import typer

from pfl.artifacts.files import write_text
from pfl.evaluation.metrics import (
    FEDHIP_PREFIX,
    HEAD_PREFIX,
    LOCAL_TEST,
    PERSONALIZED,
    UPLOAD_BYTES,
)
from pfl.report.comparison import (
    comparison_csv,
    comparison_json,
    gather,
    rounds_of,
    run_folders,
    summary_json,
)
from pfl.report.local_test import read_outcomes
from pfl.report.statistics.ranks import ranks
from pfl.report.statistics.summary import summarize
from stages._artifacts import FedhipFolder, HeadRunsFolder, RunsFolder
from stages._run import LARGEST_SEED, run

LEVEL = f"{FEDHIP_PREFIX}{PERSONALIZED}"  # what the methods with rounds are seen against


def compare(
    methods: Annotated[list[str], typer.Option(help="A method; may be given again.")],
    heads: Annotated[list[str], typer.Option(help="A head by gradients; may be given again.")],
    seeds: Annotated[
        list[int], typer.Option(min=0, max=LARGEST_SEED, help="A seed; may be given again.")
    ],
    baseline: Annotated[
        str,
        typer.Option(
            help="The method that others are compared with, client by client, as "
            "comparison.csv names it."
        ),
    ],
    runs: RunsFolder, head_runs: HeadRunsFolder, fedhip: FedhipFolder,
    report: Annotated[
        Path,
        typer.Option(
            help="Output folder: comparison.csv, comparison.json, summary.json and figures."
        ),
    ],
) -> None:  # fmt: skip
    """Compare the methods' last rounds, and FedHiP's heads."""
    # Imported here because they take long, which --help and a wrong flag need not wait for.
    from pfl.evaluation.reliability.figure import draw_reliability
    from pfl.report.comparison_figures import draw_bytes, draw_comparison, draw_rounds
    from pfl.report.reliability import gather_bins
    from pfl.report.statistics.figure import draw_ranks

    folders = run_folders(runs, methods, seeds) | run_folders(head_runs, heads, seeds, HEAD_PREFIX)
    outcomes = read_outcomes(folders, fedhip)
    table = gather(folders, fedhip, summarize(outcomes, baseline))
    write_text(report / "comparison.csv", comparison_csv(table))
    write_text(report / "comparison.json", comparison_json(table))
    draw_comparison(report / "comparison.png", table)
    ranked = ranks(outcomes)
    if ranked is not None:
        draw_ranks(report / "ranks.png", ranked)
    write_text(report / "summary.json", summary_json(table))
    accuracy, upload = (
        {
            name: [rounds_of(folder / "rounds.csv", column) for folder in of_seeds]
            for name, of_seeds in folders.items()
        }
        for column in (LOCAL_TEST, UPLOAD_BYTES)
    )
    points = {
        row.method: (row.entries[UPLOAD_BYTES].mean, row.entries[LOCAL_TEST].mean)
        for row in table
        if row.method.startswith(FEDHIP_PREFIX)
    }
    draw_rounds(report / "rounds.png", accuracy, upload, (LEVEL, points[LEVEL][1]))
    draw_bytes(report / "bytes.png", accuracy, upload, points)
    bins = gather_bins(folders, fedhip)
    if bins:
        draw_reliability(report / "reliability.png", bins)


if __name__ == "__main__":
    run(compare, "report")
