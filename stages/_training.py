"""What the stages that train in federated rounds have in common: flags, keys and outputs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
from typer import Option

from pfl.training.settings import SETTINGS, Models
from stages._run import LARGEST_SEED

if TYPE_CHECKING:
    from pfl.data.samples.clients import Clients
    from pfl.training.problem import LocalProblem
    from pfl.training.run import Watch


class Setting(click.ParamType):  # type: ignore[type-arg]  # older versions know none
    """A number whose range is checked where :class:`Training` is made, which knows its section."""

    def __init__(self, key: str) -> None:
        self.kind, self.within = SETTINGS[key]
        self.plain = click.types.convert_type(self.kind)
        self.name = self.plain.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        return self.plain.convert(value, param, ctx)


def _setting(key: str, meaning: str) -> Any:
    """The flag of a setting; those of yes or no have no range."""
    kind, within = SETTINGS[key]
    if kind is bool:
        return Option(help=meaning)
    return Option(help=meaning, metavar=str(within), click_type=Setting(key))


TrainingSeed = Annotated[
    int,
    Option(min=0, max=LARGEST_SEED, help="Of weights, batches, participants, validation part."),
]
MethodSection = Annotated[
    str,
    Option(help="FILE:SECTION of a YAML file that has the settings of this method alone."),
]
Rounds = Annotated[int, _setting("rounds", "Federated rounds T.")]
Epochs = Annotated[int, _setting("epochs", "Passes over a client's data in one round.")]
BatchSize = Annotated[int, _setting("batch-size", "Samples a step.")]
LearningRate = Annotated[float, _setting("learning-rate", "Learning rate of the first round.")]
LearningRateDecay = Annotated[
    float, _setting("learning-rate-decay", "Its factor after each round.")
]
Momentum = Annotated[float, _setting("momentum", "Of SGD.")]
Nesterov = Annotated[bool, _setting("nesterov", "Whether the momentum is Nesterov's.")]
WeightDecay = Annotated[float, _setting("weight-decay", "Weight decay.")]
Fraction = Annotated[float, _setting("fraction", "Share of clients a round.")]
ClientDropout = Annotated[float, _setting("client-dropout", "Chance that a client is lost.")]
ValidationFraction = Annotated[
    float, _setting("validation-fraction", "Share of training samples for validation.")
]
EvaluateEvery = Annotated[
    int, _setting("evaluate-every", "Rounds between tests of the clients' own models.")
]
Test = Annotated[
    Models, _setting("test", "Models that are tested: with the download, or as just trained.")
]
Input = Annotated[Path, Option(help="An artifact to read.")]
Report = Annotated[Path, Option(help="Output folder: tables, metrics.json and a figure.")]
ModelsFile = Annotated[Path, Option(help="Output: the final state of the server and the clients.")]


def train_and_report(
    problem: "LocalProblem", owners: "Clients", facts: dict[str, Any], inputs: tuple[Path, ...],
    report: Path, out: Path, scratch: Path, stage: str, watch: "Watch | None" = None,
) -> None:  # fmt: skip
    """Play all rounds in scratch, then write the tables to ``report`` and the state to ``out``.

    ``facts`` are what the state's file tells; with the content of ``inputs`` they name the work.
    ``watch`` is told of each round, see :func:`pfl.training.run.train_and_test`.
    """
    from pfl.artifacts.files import write_text
    from pfl.artifacts.json import json_text
    from pfl.evaluation.metrics import HEAD_PREFIX
    from pfl.evaluation.reliability.bins import bins_csv, bins_of
    from pfl.evaluation.reliability.figure import draw_reliability
    from pfl.runtime.machine import cores
    from pfl.runtime.scratch import scratch as locked_scratch
    from pfl.runtime.scratch import work_key
    from pfl.training.checkpoint import save_federation
    from pfl.training.report import rounds_csv, run_csv, run_metrics
    from pfl.training.run import train_and_test, unwatched

    key = work_key({**facts, "device": problem.device.type}, ("numpy", "torch"), inputs)
    name = f"{stage}-{problem.algorithm.name}-{problem.training.seed}"
    processes = cores() if problem.device.type == "cpu" else 1
    with locked_scratch(scratch, name, key) as folder:
        result = train_and_test(problem, folder, processes, watch or unwatched)
        method = f"{HEAD_PREFIX}{facts['head']}" if "head" in facts else facts["method"]
        numbers = run_metrics(method, problem, result, facts["settings"])
        write_text(report / "rounds.csv", rounds_csv(result.history))
        write_text(report / "per_client.csv", run_csv(problem, owners, result))
        write_text(report / "metrics.json", json_text(numbers))
        bins = bins_of({method: result.accuracies.local.reliability})
        write_text(report / "reliability.csv", bins_csv(bins))
        draw_reliability(report / "reliability.png", bins)
        save_federation(out, result.federation, facts)
