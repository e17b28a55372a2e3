"""The cut of a test split, and the digits."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pfl.data.samples.index import TEST, TRAIN, Index
from pfl.data.sources.registry import Dataset
from pfl.data.sources.samples import cut_test
from pfl.errors import InputError
from tests.sources import check_law, request


@st.composite
def strata(draw):
    classes, groups = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    n = draw(st.integers(1, 80))
    label = draw(arrays(np.int64, n, elements=st.integers(0, classes - 1)))
    group = draw(arrays(np.int64, n, elements=st.integers(0, groups - 1)))
    return label, group, classes, groups


def uncut(label, group, classes, groups):
    names = tuple("abcd")
    return Index(label, np.zeros_like(label), group, names[:classes], names[:groups])


@settings(deadline=None)
@given(strata(), st.floats(0, 0.99), st.integers(0, 99))
def test_a_cut_takes_its_share_of_every_stratum_and_never_all_of_it(parts, fraction, seed):
    index = uncut(*parts)
    split = cut_test(index, fraction, np.random.default_rng(seed))
    assert set(np.unique(split)) <= {TRAIN, TEST}
    for group in range(len(index.groups)):
        for label in range(len(index.classes)):
            members = split[(index.group == group) & (index.label == label)]
            if len(members):
                taken = (members == TEST).sum()
                assert taken < len(members)
                assert abs(taken - fraction * len(members)) <= 1


@settings(deadline=None)
@given(strata(), st.integers(0, 99))
def test_shares_of_small_strata_add_up(parts, seed):
    index = uncut(*parts)
    stratum = index.group * len(index.classes) + index.label
    sizes = np.unique(stratum, return_counts=True)[1]
    split = cut_test(index, 0.3, np.random.default_rng(seed))
    lost = (sizes == 1).sum()  # a single sample is always kept for training
    assert round(0.3 * sizes.sum()) - 1 - lost <= (split == TEST).sum() <= 0.3 * sizes.sum() + 0.5


def test_a_share_is_the_decimal_that_was_written():
    """0.29 of 50 is 14.5 and rounds to 15, though the product in floating point is less."""
    index = uncut(np.zeros(50, np.int64), np.zeros(50, np.int64), 1, 1)
    assert (cut_test(index, 0.29, np.random.default_rng(0)) == TEST).sum() == 15


def test_seed_and_fraction_change_the_cut_and_nothing_else_does():
    def cut(**options):
        return Dataset.DIGITS.load(request(Path("data/raw"), **options))

    first, again = cut(), cut()
    np.testing.assert_array_equal(first.images.pixels, again.images.pixels)
    np.testing.assert_array_equal(first.index.label, again.index.label)
    assert (cut(seed=1).index.label != first.index.label).any()
    assert cut(fraction=0.5).index.test.sum() > first.index.test.sum()
    with pytest.raises(InputError, match=r"no test samples.*prepare\.test-fraction higher"):
        cut(fraction=0.0)


def test_digits_are_all_there_over_the_full_range():
    samples = Dataset.DIGITS.load(request(Path("data/raw")))
    check_law(samples)
    assert samples.images.pixels.shape == (1797, 8, 8, 1)
    assert samples.images.pixels.min() == 0
    assert samples.images.pixels.max() == 255
    counts = np.bincount(samples.index.label[samples.index.test], minlength=10)
    assert counts.min() >= 42  # a quarter of 174 … 183 of each digit
    assert samples.index.classes == tuple("0123456789")
