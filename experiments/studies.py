"""What is compared on CIFAR-10 in docs/reproduction.md: settings of the stage `train`, by study."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from experiments.cd2.data import Data

CD2 = "cd2-pfed"
CIFAR10 = Data(
    "cifar10", {"dataset": "cifar10"}, {"scheme": "pathological", "classes-per-client": 2}
)
SWITCHES = {"LI": "increase", "TA": "average", "CD": "distill"}
TRIED: list[tuple[str, str, dict[str, object]]] = [  # of CD2-pFed, with their schedules
    ("0.01", "cross-output", {"cross": "output"}),  # what the paper leaves open
    ("0.01", "cross-none", {"cross": "none"}),
    ("0.01", "average-every-step", {"average-every": "step"}),
    ("0.01", "detach", {"detach": True}),
    ("0.01", "distill-0.1", {"distill-weight": 0.1}),
    ("0.01", "no-average", {"average": False}),
    ("0.01", "ratio-0.9", {"ratio": 0.9}),
    ("0.03", "ratio-0.25", {"ratio": 0.25}),
    ("0.03", "ratio-0.9", {"ratio": 0.9}),
    ("0.01", "at-once", {"increase": False}),
    ("0.01", "at-once-cross-output", {"increase": False, "cross": "output"}),
    ("0.01", "at-once-ratio-0.25", {"increase": False, "ratio": 0.25}),
    ("0.01", "at-once-ratio-0.75", {"increase": False, "ratio": 0.75}),
    ("0.01", "at-once-ratio-0.9", {"increase": False, "ratio": 0.9}),
    (
        "0.01",
        "at-once-ratio-0.9-plain",
        {"ratio": 0.9, "increase": False, "average": False, "distill": False},
    ),
    ("0.01-decay", "at-once", {"increase": False}),
    ("0.02-decay", "at-once", {"increase": False}),
    ("0.01-decay", "at-once-cross-output", {"increase": False, "cross": "output"}),
]


@dataclass(frozen=True)
class Setting:
    """One method with what differs from the protocol and from params.yaml.

    Attributes:
        name: of the folder and of the row.
        method: one of those of `train`.
        own: its own settings that differ.
        rounds: settings of `rounds` that differ.
        clients: K.
        partition: seed of the partition.
        reading: of :mod:`experiments.cd2.readings`; empty for the package's.
        begin: the run whose models it begins from, with the same seed.
        data: what it is trained on.
        seeds: of the training that it is meant for; empty for all.
        group: of settings compared on held-out samples, the best of which is then confirmed.
    """

    name: str
    method: str
    own: Mapping[str, object] = field(default_factory=dict)
    rounds: Mapping[str, object] = field(default_factory=dict)
    clients: int = 10
    partition: int = 0
    reading: str = ""
    begin: "Setting | None" = None
    data: Data = CIFAR10
    seeds: tuple[int, ...] = ()
    group: str = ""


def _methods() -> Iterator[Setting]:
    for method in (CD2, "local", "fedavg", "fedper", "lg-fed"):
        yield Setting(method, method)


def _ablation() -> Iterator[Setting]:
    """LI, TA and CD, each on or off; all three on is the method itself."""
    for kept in itertools.product((False, True), repeat=len(SWITCHES)):
        if not all(kept):
            off = {
                switch: False for switch, on in zip(SWITCHES.values(), kept, strict=True) if not on
            }
            yield Setting(ablated(kept), CD2, off)


def ablated(kept: Sequence[bool]) -> str:
    """Name of the setting with those of LI, TA and CD that are kept."""
    if all(kept):
        return CD2
    return f"ablation/{'+'.join(itertools.compress(SWITCHES, kept)) or 'none'}"


def _search() -> Iterator[Setting]:
    """Settings compared on a tenth of the training samples, which nothing trains on."""
    for schedule in ("0.003", "0.01", "0.03", "0.01-decay", "0.03-decay", "0.05-decay"):
        yield _held_out("local", schedule)
        yield _held_out(CD2, schedule)
    for method in ("local", CD2):
        yield _held_out(method, "0.01", "no-augment", rounds={"augment": False})
    for schedule, name, own in TRIED:
        yield _held_out(CD2, schedule, name, own)
    yield _held_out("lg-fed", "0.01")
    yield _held_out("lg-fed", "0.01-decay")
    yield _held_out("lg-fed", "0.01", "bottom", {"shared-end": "bottom"})
    chosen: dict[str, object] = {"increase": False, "cross": "output"}
    longer: dict[str, object] = {"rounds": 50}
    name, falling = "at-once-cross-output-50", {"learning-rate-decay": 0.94}
    yield _held_out(CD2, "0.01", name, chosen, longer)
    yield _held_out(CD2, "0.01-decay", name, chosen, longer | falling)


def _held_out(
    method: str,
    schedule: str,
    name: str = "",
    own: dict[str, object] | None = None,
    rounds: dict[str, object] | None = None,
) -> Setting:
    """``schedule`` is the first learning rate, with "-decay" if it falls after each round."""
    rate, _, falls = schedule.partition("-")
    values: dict[str, object] = {"validation-fraction": 0.1, "rounds": 20}
    values |= {"learning-rate": float(rate)} | ({"learning-rate-decay": 0.85} if falls else {})
    values |= rounds or {}
    label = "-".join(part for part in (method, rate, name, falls) if part)
    return Setting(f"search/{label}", method, own or {}, values)


def _chosen() -> Iterator[Setting]:
    """What the search found best on held out samples, over all rounds."""
    yield Setting(f"chosen/{CD2}", CD2, {"increase": False, "cross": "output"})
    yield Setting("chosen/local", "local", {}, {"learning-rate-decay": 0.94})


def _partitions() -> Iterator[Setting]:
    """Other classes for the same clients, by `partition.seed`."""
    for partition in (1, 2):
        for one in (Setting(CD2, CD2), Setting("local", "local"), *_chosen()):
            yield replace(one, name=f"partition-{partition}/{one.name}", partition=partition)


def _long() -> Iterator[Setting]:
    """LG-FedAvg's protocol, but 500 of its 2,000 rounds, and the last one instead of the best."""
    values: dict[str, object] = {
        "rounds": 500, "fraction": 0.1, "batch-size": 50, "learning-rate": 0.1, "momentum": 0.5,
        "nesterov": False, "weight-decay": 0.0, "evaluate-every": 500,
    }  # fmt: skip
    for method in (CD2, "local", "fedavg", "fedper"):
        yield Setting(f"long/{method}", method, {}, values, clients=100)
    for name, changed in {
        "0.03": {"learning-rate": 0.03},
        "decay": {"learning-rate-decay": 0.995},
    }.items():
        yield Setting(f"long/local-{name}", "local", {}, values | changed, clients=100)
    bottom = {"shared-end": "bottom"}
    yield Setting("long/lg-fed", "lg-fed", {}, values, clients=100)
    yield Setting("long/lg-fed-bottom", "lg-fed", bottom, values, clients=100)


STUDIES = {
    "methods": _methods, "search": _search, "chosen": _chosen, "ablation": _ablation,
    "partitions": _partitions, "long": _long,
}  # fmt: skip
