"""heads: one kind of head by gradients on cached features, one seed; to models and accuracy."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from stages._run import run
from stages._section import read_section
from stages._training import (
    Batch,
    Decay,
    Epochs,
    Every,
    Fraction,
    Input,
    Kept,
    Lost,
    Models,
    Momentum,
    Nesterov,
    Option,
    Place,
    Places,
    Report,
    Rounds,
    Scratch,
    Seed,
    Settings,
    Weights,
    check_shares,
    complete_run,
    work_key,
)
from stages._view import Lift, Norm, Project, feature_map
from stages._view import Seed as ViewSeed

if TYPE_CHECKING:
    from pfl.data.client_features.feature_map import FeatureMap
    from pfl.data.samples.clients import Clients
    from pfl.data.tensors.federated_data import FederatedData, Holdout

Head = Annotated[str, Option(help="Name of the head, an entry of the section heads.")]


def heads(
    head: Head, run_seed: Seed, settings: Settings, features: Input, index: Input,
    clients_file: Input, report: Report, out: Models, rounds: Rounds, epochs: Epochs,
    batch_size: Batch, learning_rate_decay: Decay, momentum: Momentum, nesterov: Nesterov,
    weight_decay: Weights, fraction: Fraction, client_dropout: Lost, validation_fraction: Kept,
    evaluate_every: Every, device: Place, project: Project, lift: Lift, norm: Norm, seed: ViewSeed,
    scratch: Scratch = Path(".scratch"),
) -> None:  # fmt: skip
    """Train all clients' heads in federated rounds and test them after the last one.

    ``run_seed`` is that of the training, ``seed`` that of the view of the features. A stopped run
    goes on after its last finished round; the result is the same to the byte.
    """
    check_shares("head-rounds", fraction, client_dropout, validation_fraction)
    # Imported here because they take seconds, which --help and a wrong flag need not wait for.
    from pfl.data.tensors.federated_data import Holdout
    from pfl.runtime.devices import training_device
    from pfl.training.methods.heads import head_problem, head_settings
    from pfl.training.rounds import Training

    values = read_section(settings)
    chosen = head_settings(head, values)
    training = Training(
        seed=run_seed, rounds=rounds, epochs=epochs, batch_size=batch_size, lr=chosen.learning_rate,
        lr_decay=learning_rate_decay, momentum=momentum, nesterov=nesterov,
        weight_decay=weight_decay, fraction=fraction, client_dropout=client_dropout, bf16=False,
    )  # fmt: skip
    holdout = Holdout(validation_fraction, run_seed)
    seen = feature_map(project, lift, norm, seed)
    held, data = _load(features, seen, index, clients_file, holdout)
    problem = head_problem(chosen, training, data, training_device(device.value))
    facts = {"head": head, "settings": values, "evaluate-every": evaluate_every,
             "training": asdict(training), "holdout": asdict(holdout), **seen.facts}  # fmt: skip
    key = work_key(facts, (features, index, clients_file), problem.device.type)
    complete_run(problem, held, facts, Places("heads", scratch, key, report, out))


def _load(
    features: Path, seen: "FeatureMap", index: Path, clients_file: Path, holdout: "Holdout"
) -> "tuple[Clients, FederatedData]":
    """All features in memory, dealt to the clients."""
    from pfl.data.client_features.by_client import check_same_run
    from pfl.data.client_features.feature_map import open_mapped_features
    from pfl.data.samples.clients import read_clients
    from pfl.data.samples.index import read_index
    from pfl.data.tensors.features import feature_view, load_features
    from pfl.data.tensors.federated_data import federate

    samples, held = read_index(index), read_clients(clients_file)
    with open_mapped_features(features, seen) as opened:
        check_same_run(opened, samples, held.train)
        stored = load_features(opened)
    return held, federate(samples, held, stored, holdout, feature_view)


if __name__ == "__main__":
    run(heads, "report", "out")
