"""report: one page with all results, that opens anywhere and needs no network."""

import importlib.metadata
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pfl.artifacts.files import write_text
from pfl.artifacts.json import load_report
from pfl.evaluation.metrics import FEDHIP_PREFIX, HEAD_PREFIX, RUN
from pfl.report.content import Sources, page
from pfl.report.origin import attributes
from pfl.report.page import render
from stages._artifacts import (
    ClientsFile,
    FeaturesFile,
    FedhipFolder,
    HeadRunsFolder,
    HeadsFile,
    IndexFile,
    RunsFolder,
    ServerFile,
)  # fmt: skip
from stages._run import run
from stages._section import read_section, section_text


def report(
    index: IndexFile, clients_file: ClientsFile, features: FeaturesFile, server: ServerFile,
    heads: HeadsFile, fedhip: FedhipFolder, runs: RunsFolder, head_runs: HeadRunsFolder,
    partition: Annotated[Path, typer.Option(help="Folder of the partition's report.")],
    comparison: Annotated[Path, typer.Option(help="Folder of the comparison.")],
    leakage: Annotated[Path, typer.Option(help="Folder of the leakage's report.")],
    parameters: Annotated[
        list[str], typer.Option(help="FILE:SECTION of parameters to show; may be given again.")
    ],
    out: Annotated[Path, typer.Option(help="Output: the page.")],
) -> None:  # fmt: skip
    """Put the data, all results and what is needed to repeat them on one page."""
    files = {"index": index, "clients": clients_file, "features": features, "server": server,
             "heads": heads}  # fmt: skip
    artifacts = {schema: attributes(path, schema) for schema, path in files.items()}
    shown: dict[str, object] = {name.partition(":")[2]: read_section(name) for name in parameters}
    methods = load_report(comparison / "comparison.json")
    compared = [name for name in methods if not name.startswith(FEDHIP_PREFIX)]
    prefixed = [name for name in compared if name.startswith(HEAD_PREFIX)]
    shown["train"] = _settings(runs, [name for name in compared if name not in prefixed])
    shown["heads"] = _settings(head_runs, [name.removeprefix(HEAD_PREFIX) for name in prefixed])
    sources = Sources(partition, fedhip, comparison, leakage, artifacts, section_text(shown))
    write_text(out, render(page(sources, _footer())))


def _settings(runs: Path, methods: Sequence[str]) -> dict[str, object]:
    """What each compared method alone depends on, as its runs recorded it."""
    settings = {}
    for method in methods:
        path = next(iter(sorted((runs / method).glob("seed-*/metrics.json"))), runs / method)
        settings[method] = load_report(path).get(RUN, {}).get("settings", {})
    return settings


def _footer() -> str:
    version = importlib.metadata.version("pfl-pipeline")
    return f"Written by pfl-pipeline {version} with Python {platform.python_version()}."


if __name__ == "__main__":
    run(report, "out")
