"""``pfl predict``: the class of each image, by one client's model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pfl.artifacts.csv import csv_text
from pfl.cli.commands.flags import (
    HERE,
    Client,
    Head,
    Json,
    ProjectFolder,
    Weights,
    client_number,
    head_kind,
)
from pfl.cli.display import Share, show

if TYPE_CHECKING:
    from pfl.cli.deployment.model import Model
    from pfl.cli.deployment.prediction import Prediction
    from pfl.cli.deployment.shift import Shifted

Prior = Annotated[
    str | None,
    typer.Option(
        help="Class shares that the scores are for: own (the client's), uniform (even), em "
        "(estimated from these images), or a JSON or CSV file with a share or count of each class.",
        show_default="own; uniform of a new client",
    ),
]


def predict(
    images: Annotated[list[Path], typer.Argument(help="Image files, and folders of them.")],
    client: Client,
    head: Head = None,
    prior: Prior = None,
    weights: Weights = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write all scores to this file as well.", dir_okay=False)
    ] = None,
    project: ProjectFolder = HERE,
    as_json: Json = False,
) -> None:
    """Say what is on images, with scores of all classes.

    An image that cannot be read is named, the others are predicted, and the exit code is 1.
    """
    from pfl.artifacts.files import write_text
    from pfl.artifacts.project import Project
    from pfl.cli.deployment.model import load_model
    from pfl.cli.deployment.prediction import find_images, predict_images
    from pfl.cli.deployment.prior import EM
    from pfl.cli.deployment.shift import shifted

    number = client_number(client)
    files = find_images(images)
    model = load_model(Project(project), number, head_kind(head, number), weights, prior)
    predictions, found = list(predict_images(model, files)), None
    if model.prior == EM:
        predictions, found = shifted(model, predictions)
    if csv is not None:
        write_text(csv, _csv(model.classes, predictions))
    failed = [prediction for prediction in predictions if prediction.error]
    show(_content(model, predictions, found), as_json)
    if failed:
        count = f"{len(failed)} of {len(predictions)} images cannot be read"
        typer.secho(f"Error: {count}. The first: {failed[0].error}", err=True, fg="red")
        raise typer.Exit(1)


def _content(
    model: "Model", predictions: "Sequence[Prediction]", found: "Shifted | None"
) -> dict[str, object]:
    return {
        "client": model.whose,
        "head": model.kind.value,
        "prior": model.prior,
        **({} if found is None else _estimated(model, found)),
        "predictions": [_row(model.classes, p) for p in predictions if not p.error],
        "unreadable": [{"image": p.image, "error": p.error} for p in predictions if p.error],
    }


def _estimated(model: "Model", found: "Shifted") -> dict[str, object]:
    """What EM found, and whether it is used."""
    from pfl.cli.deployment.prior import own_name

    estimate = found.estimate
    columns = zip(model.classes, model.head.shares, estimate.shares, found.head.shares, strict=True)
    verdict = (
        "the shares differ from the prior before by more than chance explains: used"
        if estimate.differs
        else "chance explains how the shares differ from the prior before: not used"
    )
    return {
        "prior": model.prior if estimate.differs else own_name(model.kind),
        "estimate": {
            "likelihood-ratio": estimate.statistic,
            "p-value": estimate.p_value,
            "iterations": estimate.iterations,
            "verdict": verdict,
        },
        "class-shares": [
            {
                "class": name,
                "before": Share(before),
                "estimated": Share(likeliest),
                "used": Share(used),
            }
            for name, before, likeliest, used in columns
        ],
    }


def _row(classes: tuple[str, ...], prediction: "Prediction") -> dict[str, object]:
    order = prediction.order
    best, second = order[0], order[min(1, len(order) - 1)]
    return {
        "image": prediction.image,
        "class": classes[best],
        "probability": Share(prediction.probabilities[best]),
        "score": float(prediction.scores[best]),
        "second": classes[second],
        "scores": dict(zip(classes, prediction.scores.tolist(), strict=True)),
        "probabilities": dict(zip(classes, prediction.probabilities.tolist(), strict=True)),
    }


def _csv(classes: tuple[str, ...], predictions: "Sequence[Prediction]") -> str:
    """One line an image; of one that cannot be read, the name and the error."""
    columns = [f"{kind}:{name}" for kind in ("probability", "score") for name in classes]
    rows: list[list[object]] = []
    for prediction in predictions:
        numbers = [""] * (2 + len(columns))
        if not prediction.error:
            best, chances = prediction.order[0], prediction.probabilities.tolist()
            numbers = [classes[best], chances[best], *chances, *prediction.scores.tolist()]
        rows.append([prediction.image, *numbers, prediction.error])
    return csv_text(["image", "class", "probability", *columns, "error"], rows)
