"""Samples dealt as LG-FedAvg's released code deals them: shuffled shards of one class each.

Each class is cut into K·s/d shards, all shards are shuffled, and each of the K clients takes s of
them: unlike ``scheme: pathological`` a client may draw one class twice, and then has fewer than s
classes. Test samples are cut in the same way and go with the same draw.
"""

import numpy as np
from jaxtyping import Int

from pfl.data.samples.clients import Clients, assign
from pfl.data.samples.index import Index
from pfl.errors import InputError


def draw(
    classes: int, clients: int, each: int, rng: np.random.Generator
) -> Int[np.ndarray, "{clients} {each}"]:
    """The classes of each client's shards; every class is drawn equally often.

    Raises:
        InputError: the shards cannot be shared evenly among the classes.
    """
    if clients * each % classes:
        raise InputError(
            f"{clients} clients with {each} shards each have {clients * each} shards, which "
            f"{classes} classes cannot share evenly: choose other numbers."
        )
    return rng.permutation(np.arange(clients * each) % classes).reshape(clients, each)


def owners(
    label: Int[np.ndarray, " n"], drawn: Int[np.ndarray, "clients each"], rng: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """The client of each sample: class c in random order, cut among the holders of its shards."""
    owner = np.empty(len(label), np.int64)
    for number in range(drawn.max() + 1):
        holders = np.flatnonzero((drawn == number).ravel()) // drawn.shape[1]
        members = rng.permutation(np.flatnonzero(label == number))
        for holder, part in zip(holders, np.array_split(members, len(holders)), strict=True):
            owner[part] = holder
    return owner


def shuffled_shards(index: Index, clients: int, each: int, rng: np.random.Generator) -> Clients:
    """Who holds which samples.

    Raises:
        InputError: the shards cannot be shared evenly among the classes.
    """
    classes = len(index.classes)
    drawn = draw(classes, clients, each, rng)
    dealt = []
    for rows in (np.flatnonzero(index.train), np.flatnonzero(index.test)):
        label = index.label[rows].astype(np.int64)
        dealt.append(assign(owners(label, drawn, rng), rows, label, clients, classes))
    return Clients(*dealt)
