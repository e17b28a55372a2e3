"""Who trains with what: disjoint parts, and no test or external sample among them."""

import math
from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from pfl.data.samples.clients import Clients, assign
from pfl.data.samples.index import TEST, TRAIN, Index
from pfl.data.tensors.federated_data import Holdout, federate
from pfl.data.tensors.pixels import pixel_view
from pfl.errors import InputError
from pfl.runtime.rounding import portion

COUNT, CLASSES, CLIENTS = 60, 3, 4
VIEW = partial(pixel_view, augment=False)


def inputs(seed=0, clients=CLIENTS, outside=""):
    """Images whose number is in their first pixel, two groups, some test samples of nobody."""
    rng = np.random.default_rng(seed)
    label = rng.integers(CLASSES, size=COUNT).astype(np.int32)
    split = np.repeat([TRAIN, TEST], COUNT // 2).astype(np.uint8)
    group = rng.integers(2, size=COUNT).astype(np.int32)
    index = Index(label, split, group, ("a", "b", "c"), ("left", "right"))
    halves = np.arange(COUNT // 2), np.arange(COUNT // 2, COUNT)
    owners = rng.integers(0, clients, COUNT // 2), rng.integers(-1, clients, COUNT // 2)
    apart = group == (index.groups.index(outside) if outside else -1)
    owners = [np.where(apart[rows], -1, own) for own, rows in zip(owners, halves, strict=True)]
    deals = [
        assign(owner, rows, label[rows], clients, CLASSES)
        for owner, rows in zip(owners, halves, strict=True)
    ]
    pixels = torch.from_numpy(rng.integers(0, 256, (COUNT, 3, 3, 1), dtype=np.uint8))
    pixels[:, 0, 0, 0] = torch.arange(COUNT)
    return index, Clients(*deals, external=np.flatnonzero(apart)), pixels


def numbers(data):
    return data.stored[:, 0, 0, 0].tolist()


@given(st.integers(0, 99), st.floats(0, 0.99), st.sampled_from(["", "left", "right"]))
def test_parts_are_disjoint_and_complete(seed, fraction, group):
    index, held, pixels = inputs(seed, outside=group)
    data = federate(index, held, pixels, Holdout(fraction, seed), VIEW)
    outside = set(np.flatnonzero(index.group == index.groups.index(group))) if group else set()
    for client in range(CLIENTS):
        mine = set(held.train.of(client).tolist())
        train, kept = numbers(data.clients[client]), numbers(data.tests.validation[client])
        assert sorted(train + kept) == sorted(mine)
        assert len(kept) == math.floor(portion(len(mine), fraction))
        own = numbers(data.tests.pooled.take(data.tests.own[client]))
        assert sorted(own) == sorted(held.test.of(client).tolist())
    assert numbers(data.tests.pooled) == sorted(set(np.flatnonzero(index.test)) - outside)
    assert (numbers(data.tests.external) if group else []) == sorted(outside)


def test_a_validation_share_is_the_decimal_that_was_written():
    """0.29 of 100 is 29, though the product in floating point is less."""
    count = 100
    label = np.zeros(count + 1, np.int32)
    split = np.repeat([TRAIN, TEST], [count, 1]).astype(np.uint8)
    index = Index(label, split, label, ("a",), ("all",))
    halves = np.arange(count), np.array([count])
    deals = [assign(label[rows].astype(int), rows, label[rows], 1, 1) for rows in halves]
    pixels = torch.zeros((count + 1, 2, 2, 1), dtype=torch.uint8)
    data = federate(index, Clients(*deals), pixels, Holdout(0.29, 0), VIEW)
    assert len(data.tests.validation[0]) == 29


def test_labels_and_statistics_are_those_of_the_samples():
    index, held, pixels = inputs(outside="left")
    data = federate(index, held, pixels, Holdout(0.2, 0), VIEW)
    training = np.sort(np.concatenate([numbers(client) for client in data.clients.values()]))
    scaled = pixels[training].double() / 255
    for part in (*data.clients.values(), data.tests.pooled, data.tests.external):
        assert np.array_equal(part.label.numpy(), index.label[numbers(part)])
        torch.testing.assert_close(part.view.mean.double(), scaled.mean((0, 1, 2)))
        torch.testing.assert_close(part.view.std.double(), scaled.std((0, 1, 2), correction=0))
    assert data.classes == CLASSES
    assert data.class_count.tolist() == np.bincount(index.label[training]).tolist()


def test_validation_parts_are_drawn_by_the_seed():
    index, held, pixels = inputs()
    parts = [
        [
            numbers(part)
            for part in federate(index, held, pixels, Holdout(0.5, seed), VIEW).tests.validation
        ]
        for seed in (0, 0, 1)
    ]
    assert parts[0] == parts[1] != parts[2]


def test_somebody_must_train_and_something_must_be_tested():
    index, held, pixels = inputs()
    nobody = assign(np.zeros(0, int), np.zeros(0, int), np.zeros(0, int), CLIENTS, CLASSES)
    with pytest.raises(InputError, match="no training samples"):
        federate(index, Clients(nobody, held.test), pixels, Holdout(0.0, 0), VIEW)
    trained = Index(
        index.label, np.zeros(COUNT, np.uint8), index.group, index.classes, index.groups
    )
    with pytest.raises(InputError, match="no test samples"):
        federate(trained, Clients(held.train, nobody), pixels, Holdout(0.0, 0), VIEW)
