"""``pfl export``: one client's model as files that run without this project."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pfl.cli.commands.flags import (
    HERE,
    Client,
    Head,
    Json,
    Prior,
    ProjectFolder,
    Weights,
    client_number,
    head_kind,
)
from pfl.cli.display import show
from pfl.errors import InputError


def export(
    client: Client,
    out: Annotated[Path, typer.Option(help="Folder to write; an earlier export is replaced.")],
    head: Head = None,
    prior: Prior = None,
    weights: Weights = None,
    project: ProjectFolder = HERE,
    as_json: Json = False,
) -> None:
    """Write one client's model, backbone and head in one graph, and check it by running it.

    It gets the client's own test images, everybody's for a new client, and its scores must be those
    of the pipeline.
    """
    from pfl.artifacts.project import Project
    from pfl.cli.deployment.export import ONNX, export_model, has_onnx
    from pfl.cli.deployment.model import load_model
    from pfl.cli.deployment.prior import EM

    number, place = client_number(client), Project(project)
    if prior == EM:
        raise InputError(
            "Class shares are estimated from images, which export has none of: let `pfl predict "
            "--prior em` find them, and give a file of them."
        )
    model = load_model(place, number, head_kind(head, number), weights, prior)
    agreements = export_model(model, place, out)
    content: dict[str, object] = {
        "client": model.whose,
        "head": model.kind.value,
        "prior": model.prior,
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
