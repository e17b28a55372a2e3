"""``pfl export``: one client's model as files that run without this project."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pfl.cli.commands.flags import HERE, Client, Head, Json, ProjectFolder, Weights
from pfl.cli.display import show
from pfl.evaluation.metrics import HeadKind


def export(
    client: Client,
    out: Annotated[Path, typer.Option(help="Folder to write; an earlier export is replaced.")],
    head: Head = HeadKind.personalized,
    weights: Weights = None,
    project: ProjectFolder = HERE,
    as_json: Json = False,
) -> None:
    """Write one client's model, backbone and head in one graph, and check it by running it.

    It gets the client's own test images, and its scores must be those of the pipeline.
    """
    from pfl.artifacts.project import Project
    from pfl.cli.deployment.export import ONNX, export_model, has_onnx
    from pfl.cli.deployment.model import load_model

    place = Project(project)
    model = load_model(place, client, head, weights)
    agreements = export_model(model, place, out)
    content: dict[str, object] = {
        "client": client,
        "head": head.value,
        "compared-with-the-pipeline": [
            {"model": name} | {key.replace("_", "-"): v for key, v in asdict(agreement).items()}
            for name, agreement in agreements.items()
        ],
        "files": [
            {"file": str(path), "bytes": path.stat().st_size} for path in sorted(out.iterdir())
        ],
    }
    if not has_onnx():
        content["onnx"] = f"left out: install {', '.join(ONNX)} (pip install pfl-pipeline[export])"
    show(content, as_json)
