"""Shards: everybody has as many, classes are dealt equally often, and one may come twice."""

import numpy as np
import pytest

from experiments.cd2.shards import draw, shuffled_shards
from pfl.data.samples.index import TEST, TRAIN, Index
from pfl.errors import InputError


def index(classes=5, each=12):
    label = np.tile(np.arange(classes), each).astype(np.int32)
    split = np.where(np.arange(len(label)) < len(label) * 2 // 3, TRAIN, TEST).astype(np.uint8)
    names = tuple("abcde")
    return Index(label, split, np.zeros(len(label), np.int32), names, ("all",))


def test_every_sample_has_one_client_of_its_shards_class():
    samples = index()
    dealt = shuffled_shards(samples, 10, 2, np.random.default_rng(0))
    for part, rows in ((dealt.train, samples.train), (dealt.test, samples.test)):
        assert sorted(part.sample) == np.flatnonzero(rows).tolist()
        assert (part.count.sum(1) == part.sizes).all()
    assert ((dealt.train.count > 0) == (dealt.test.count > 0)).all()
    assert ((dealt.train.count > 0).sum(1) <= 2).all()


def test_a_class_may_come_twice_and_all_are_drawn_equally_often():
    found = [draw(5, 10, 2, np.random.default_rng(seed)) for seed in range(20)]
    assert all((np.bincount(one.ravel()) == 4).all() for one in found)
    assert any((one[:, 0] == one[:, 1]).any() for one in found)


def test_uneven_shards_are_refused():
    with pytest.raises(InputError, match="have 6 shards, which 5 classes cannot share"):
        draw(5, 3, 2, np.random.default_rng(0))
