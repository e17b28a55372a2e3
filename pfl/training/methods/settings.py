"""What each method alone is told, as ``params.yaml`` has it: an entry of the section ``train``.

Kinds and ranges stand here alone, a record for each method. The registry makes the method of its
record; `pfl check` and Flower's server ask before there is a network. No PyTorch is imported, so a
wrong setting is told at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pfl.errors import InputError
from pfl.runtime.values import Range, annotated, checked
from pfl.training.settings import ABOVE_0, FROM_0, FROM_1, SettingError

Above0 = Annotated[float, ABOVE_0]
AtLeast0 = Annotated[float, FROM_0]
From0To1 = Annotated[float, Range(0, 1)]
AtLeast1 = Annotated[int, FROM_1]


@dataclass(frozen=True)
class Nothing:
    """A method without settings of its own."""


class Cross(StrEnum):
    """Who owns the weights that lead from one part's channels to the other's; the paper is silent.

    Attributes:
        BOTH_SHARED: the client. What is shared is then exactly the shared sub-network g(w_0).
        OUTPUT: whoever owns the output channel (for class scores: the input channel).
        INPUT: whoever owns the input channel (for images: the output channel).
        EITHER: the server. A client then keeps exactly its private sub-network g(w_i).
        NONE: nobody: they are zero, and the parts are two towers that meet at the class scores.
    """

    BOTH_SHARED = "both-shared"
    OUTPUT = "output"
    INPUT = "input"
    EITHER = "either"
    NONE = "none"


class AverageEvery(StrEnum):
    """When private weights are averaged with their previous values.

    Attributes:
        EPOCH: between the beginning and the end of each pass over the data: the paper's algorithm
            counts l up to the number of local epochs.
        STEP: at each mini-batch, as its line 9 says.
    """

    EPOCH = "epoch"
    STEP = "step"


@dataclass(frozen=True)
class CD2Settings:
    """What distinguishes one CD2-pFed from another; the symbols are the paper's.

    Attributes:
        ratio: p, the private share of the channels at the end.
        cross: who owns weights between the parts.
        increase: LI, whether the share grows from round to round.
        average: TA, whether private weights are averaged over time.
        average_weight: β, the weight of the newest ones.
        average_ramp: t_0 / T, the share of the rounds in which β_t grows to β.
        average_every: when.
        distill: CD, whether the parts learn from each other.
        distill_weight: λ.
        detach: whether a part's prediction is taken as given where it teaches.
    """

    ratio: From0To1
    cross: Cross
    increase: bool
    average: bool
    average_weight: Annotated[float, Range(0, 1, with_low=False)]
    average_ramp: From0To1
    average_every: AverageEvery
    distill: bool
    distill_weight: AtLeast0
    detach: bool


@dataclass(frozen=True)
class PrivateTop:
    """FedPer: how many layers at the top are private; the network says how many there are."""

    private_layers: int


class End(StrEnum):
    """Which end of a network: ``TOP`` has the classifier, ``BOTTOM`` sees the images."""

    TOP = "top"
    BOTTOM = "bottom"


@dataclass(frozen=True)
class SharedEnd:
    """LG-Fed: how many layers are shared, and at which end."""

    shared_layers: int
    shared_end: End


@dataclass(frozen=True)
class PrivateHead:
    """FedRep: private layers at the top, and passes for them before those for the rest."""

    private_layers: int
    head_epochs: AtLeast1


@dataclass(frozen=True)
class Proximal:
    """FedProx: μ, the pull of the download."""

    mu: AtLeast0


@dataclass(frozen=True)
class Attraction:
    """Ditto: λ, the pull of the shared model."""

    attraction: AtLeast0


@dataclass(frozen=True)
class FineTuning:
    """FedAvg with fine-tuning: passes before use, and their learning rate."""

    epochs: AtLeast1
    learning_rate: AtLeast0


@dataclass(frozen=True)
class FixedHead:
    """FedBABU: layers at the top that no round trains, and the fine-tuning before use."""

    head_layers: int
    epochs: AtLeast1
    learning_rate: AtLeast0


@dataclass(frozen=True)
class Mixture:
    """APFL: α at the beginning, and whether each client's α learns."""

    alpha: From0To1
    adaptive: bool


@dataclass(frozen=True)
class Moreau:
    """pFedMe: λ, K and η.

    Raises:
        SettingError: ηλ is above 1.
    """

    attraction: AtLeast0
    inner_steps: AtLeast1
    learning_rate: AtLeast0

    def __post_init__(self) -> None:
        """Check the product."""
        if self.share > 1:
            raise SettingError(
                f"attraction and learning-rate multiply to {self.share:g}, a step beyond the "
                "personal model: choose them with a product of at most 1."
            )

    @property
    def share(self) -> float:
        """Of the way to the personal model, ηλ."""
        return self.attraction * self.learning_rate


@dataclass(frozen=True)
class Smoothing:
    """FedAvg with a class prior: samples of each class that draw the client's to everybody's."""

    smoothing: Above0


RECORDS: dict[str, Callable[..., Any]] = {
    "cd2-pfed": CD2Settings,
    "fedavg": Nothing,
    "local": Nothing,
    "fedper": PrivateTop,
    "lg-fed": SharedEnd,
    "fedrep": PrivateHead,
    "fedbn": Nothing,
    "fedprox": Proximal,
    "ditto": Attraction,
    "fedavg-ft": FineTuning,
    "fedbabu": FixedHead,
    "apfl": Mixture,
    "pfedme": Moreau,
    "fedavg-prior": Smoothing,
    "fedrod": Nothing,
}


def method_settings(name: str, settings: Mapping[str, object], section: str) -> Any:
    """The record of the method ``name``, from the settings of its section.

    Raises:
        InputError: there is no such method; a setting is missing, unknown, of the wrong kind or out
            of its range; or two of them do not go together.
    """
    if name not in RECORDS:
        raise InputError(
            f"There is no method '{name}' (section {section}): choose from {', '.join(RECORDS)}."
        )
    known = annotated(RECORDS[name])
    missing, unknown = known.keys() - settings.keys(), settings.keys() - known.keys()
    if missing or unknown:
        wrong = [f"lacks {', '.join(sorted(missing))}"] if missing else []
        wrong += [f"does not know {', '.join(sorted(unknown))}"] if unknown else []
        names = f"are {', '.join(known)}" if known else "do not exist"
        raise InputError(
            f"Section {section} of the parameters {' and '.join(wrong)}: its settings {names}."
        )
    values = {}
    for key, (kind, within) in known.items():
        values[key.replace("-", "_")] = checked(f"{section}.{key}", settings[key], kind, within)
    try:
        return RECORDS[name](**values)
    except SettingError as error:
        raise InputError(f"{section}.{error}") from error
