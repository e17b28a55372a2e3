"""From samples and who holds them to what each client trains with and everybody is tested with."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from operator import methodcaller

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from pfl.data.samples.clients import Clients
from pfl.data.samples.external_group import common_test
from pfl.data.samples.index import Index
from pfl.data.tensors.client_data import ClientData, TestData, View
from pfl.errors import InputError
from pfl.runtime.rng import stream
from pfl.runtime.rounding import portion

# The stored training samples of one client after another -> how networks see all samples.
ViewOf = Callable[[Iterable[Tensor]], View]


@dataclass(frozen=True)
class Holdout:
    """What clients keep from training.

    Attributes:
        validation_fraction: share in [0, 1) of each client's training samples, rounded down.
        seed: of the choice of validation samples.
        parameter: the key of the share, for messages.
    """

    validation_fraction: float
    seed: int
    parameter: str = "rounds.validation-fraction"

    @property
    def facts(self) -> dict[str, object]:
        """What a run's file tells of it."""
        return {"validation_fraction": self.validation_fraction, "seed": self.seed}


@dataclass(frozen=True)
class FederatedData:
    """The result: ``clients``, by number, train, ``tests`` do not; labels are below ``classes``."""

    clients: Mapping[int, ClientData]
    tests: TestData
    classes: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Training samples of each client, 0 where they are not at hand."""
        count = max(self.clients, default=-1) + 1
        return tuple(len(self.clients[k]) if k in self.clients else 0 for k in range(count))

    @property
    def class_count(self) -> Int[np.ndarray, " d"]:
        """Training samples of each class, of the clients that are at hand."""
        labels = [data.label.cpu().numpy() for data in self.clients.values()]
        return np.bincount(np.concatenate(labels), minlength=self.classes)

    def to(self, device: torch.device) -> "FederatedData":
        """The same on another device, where what is shared is held once, too."""
        move = cache(methodcaller("to", device))

        def moved(data: ClientData) -> ClientData:
            return replace(data, stored=move(data.stored)).to(device)

        clients = {client: moved(data) for client, data in self.clients.items()}
        return replace(self, clients=clients, tests=self.tests.each(moved))


def federate(
    index: Index,
    owners: Clients,
    stored: Shaped[Tensor, "images ..."],
    holdout: Holdout,
    view_of: ViewOf,
) -> FederatedData:
    """Give each client its samples.

    Where samples share images, ``stored``, of all images, is not copied: all data refer to it.

    What ``view_of`` makes the view from, statistics by which all samples are normalized, are the
    clients' training samples alone.

    Raises:
        InputError: nobody has training samples, or there are no test samples.
    """
    training, validation = _parts(owners, holdout)
    test = np.flatnonzero(common_test(index, owners))
    if not any(len(rows) for rows in training) or not len(test):
        if any(len(rows) for rows in training):
            raise InputError("There are no test samples: give prepare data with such samples.")
        raise InputError(
            "There are no training samples left: give prepare data with such samples, or choose a "
            f"smaller {holdout.parameter}."
        )
    images = map(index.images_of, (rows for rows in training if len(rows)))
    view = view_of(stored[torch.from_numpy(rows)] for rows in images)
    label = torch.from_numpy(index.label.astype(np.int64))
    shared = None if index.image is None else torch.from_numpy(index.image.astype(np.int64))
    everything = ClientData(stored, label, view, shared)
    own = map(owners.test.of, range(owners.test.clients))
    return FederatedData(
        {client: _take(everything, rows) for client, rows in enumerate(training)},
        TestData(
            validation=tuple(_take(everything, rows) for rows in validation),
            pooled=_take(everything, test),
            own=tuple(torch.from_numpy(np.searchsorted(test, rows)) for rows in own),
            external=_take(everything, owners.external) if len(owners.external) else None,
        ),
        len(index.classes),
    )


def _take(everything: ClientData, rows: Int[np.ndarray, " m"]) -> ClientData:
    return everything.take(torch.from_numpy(rows))


def _parts(owners: Clients, holdout: Holdout) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Training and validation samples of each client, in ascending order."""
    training, validation = [], []
    for client in range(owners.train.clients):
        rows = np.sort(owners.train.of(client))
        generator = stream(holdout.seed, "validation", client)
        order = torch.randperm(len(rows), generator=generator).numpy()
        cut = math.floor(portion(len(rows), holdout.validation_fraction))
        validation.append(rows[np.sort(order[:cut])])
        training.append(rows[np.sort(order[cut:])])
    return training, validation
