"""heads: one kind of head by gradients on cached features, one seed; to models and accuracy."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import stages._training as flags
from stages._feature_map import Lift, Norm, Project, feature_map
from stages._feature_map import Seed as MapSeed
from stages._run import DeviceFlag, Scratch, run
from stages._section import read_section

if TYPE_CHECKING:
    from pfl.data.client_features.feature_map import FeatureMap
    from pfl.data.samples.clients import Clients
    from pfl.data.tensors.federated_data import FederatedData, Holdout

Head = Annotated[str, typer.Option(help="Name of the head, an entry of the section heads.")]


def heads(
    head: Head, run_seed: flags.TrainingSeed, settings: flags.MethodSection,
    features: flags.Input, index: flags.Input, clients_file: flags.Input, report: flags.Report,
    out: flags.ModelsFile, rounds: flags.Rounds, epochs: flags.Epochs, batch_size: flags.BatchSize,
    learning_rate_decay: flags.LearningRateDecay, momentum: flags.Momentum,
    nesterov: flags.Nesterov, weight_decay: flags.WeightDecay, fraction: flags.Fraction,
    client_dropout: flags.ClientDropout, validation_fraction: flags.ValidationFraction,
    evaluate_every: flags.EvaluateEvery, test: flags.Test, device: DeviceFlag, project: Project,
    lift: Lift, norm: Norm, seed: MapSeed, scratch: Scratch = Path(".scratch"),
) -> None:  # fmt: skip
    """Train all clients' heads in federated rounds and test them after the last one.

    ``run_seed`` is that of the training, ``seed`` that of the view of the features. A stopped run
    goes on after its last finished round; the result is the same to the byte.
    """
    # Imported here because they take seconds, which --help and a wrong flag need not wait for.
    from pfl.training.head_settings import head_settings, head_training
    from pfl.training.methods.heads import head_problem
    from pfl.training.problem import holdout

    values = read_section(settings)
    chosen = head_settings(head, values)
    training = head_training(chosen, run_seed, {
        "rounds": rounds, "epochs": epochs, "batch-size": batch_size,
        "learning-rate-decay": learning_rate_decay, "momentum": momentum, "nesterov": nesterov,
        "weight-decay": weight_decay, "fraction": fraction, "client-dropout": client_dropout,
        "validation-fraction": validation_fraction, "evaluate-every": evaluate_every, "test": test,
        "device": device,
    })  # fmt: skip
    kept, chosen_map = holdout(training), feature_map(project, lift, norm, seed)
    owners, data = _load(features, chosen_map, index, clients_file, kept)
    problem = head_problem(chosen, training, data)
    facts = {"head": head, "settings": values, "evaluate-every": evaluate_every, "test": test,
             "training": training.facts, "holdout": kept.facts, **chosen_map.facts}  # fmt: skip
    inputs = (features, index, clients_file)
    flags.train_and_report(problem, owners, facts, inputs, report, out, scratch, "heads")


def _load(
    features: Path, through: "FeatureMap", index: Path, clients_file: Path, holdout: "Holdout"
) -> "tuple[Clients, FederatedData]":
    """All features in memory, and who has which."""
    from pfl.data.client_features.by_client import check_same_run
    from pfl.data.client_features.feature_map import open_mapped_features
    from pfl.data.samples.clients import read_clients
    from pfl.data.samples.index import read_index
    from pfl.data.tensors.features import feature_view, load_features
    from pfl.data.tensors.federated_data import federate

    samples, owners = read_index(index), read_clients(clients_file)
    with open_mapped_features(features, through) as opened:
        check_same_run(opened, samples, owners.train)
        stored = load_features(opened)
    return owners, federate(samples, owners, stored, holdout, feature_view)


if __name__ == "__main__":
    run(heads, "report", "out")
