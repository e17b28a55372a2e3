"""Sites: who is where, and what their labels mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.data.images.images import PixelArray
from pfl.data.samples.index import TEST, TRAIN, Index
from pfl.data.sources.samples import NO_GROUPS, Samples
from pfl.data.sources.sites import Difference, SiteSettings, as_sites
from pfl.errors import InputError


def samples(training=40, testing=20, classes=5, groups=NO_GROUPS, seed=0):
    rng = np.random.default_rng(seed)
    n = training + testing
    index = Index(
        rng.integers(classes, size=n),
        np.repeat([TRAIN, TEST], [training, testing]),
        rng.integers(len(groups), size=n),
        tuple(f"class {c}" for c in range(classes)),
        groups,
    )
    return Samples(PixelArray(np.zeros((n, 2, 2, 3), np.uint8)), index, {})


def test_without_a_difference_nothing_changes():
    before = samples()
    after, sites = as_sites(before, SiteSettings(Difference.NONE, 1.0, 4, 0))
    assert after is before
    assert sites is None


@given(st.integers(2, 9), st.integers(0, 99))
def test_every_class_of_each_split_is_spread_evenly_over_the_sites(count, seed):
    after, sites = as_sites(samples(), SiteSettings(Difference.BLUR, 1.0, count, seed))
    index = after.index
    assert len(index.groups) == len(set(index.groups)) == count
    np.testing.assert_array_equal(sites.site, index.group)
    for split in (TRAIN, TEST):
        of_split = index.split == split
        sizes = np.bincount(index.group[of_split], minlength=count)
        assert np.ptp(sizes) <= 1
        for label in range(5):
            mine = of_split & (index.label == label)
            assert np.ptp(np.bincount(index.group[mine], minlength=count)) <= 1


@given(st.floats(0, 1), st.integers(0, 99))
def test_labels_that_differ_are_a_permutation_of_the_classes_at_each_site(strength, seed):
    before = samples().index
    after, sites = as_sites(samples(), SiteSettings(Difference.LABELS, strength, 4, seed))
    assert sites is None  # images, and so features, stay as they are
    assert (
        as_sites(samples(), SiteSettings(Difference.LABELS, strength, 4, seed))[
            0
        ].index.label.tolist()
        == after.index.label.tolist()
    )
    for site in range(4):
        mine = after.index.group == site
        pairs = set(zip(before.label[mine].tolist(), after.index.label[mine].tolist(), strict=True))
        old, new = zip(*pairs, strict=True)
        assert len(set(old)) == len(set(new)) == len(pairs)
        moved = sum(a != b for a, b in pairs)
        assert moved <= (0 if site == 0 else round(strength * 5))


def test_all_classes_change_names_at_strength_one_but_at_site_0():
    after, _ = as_sites(samples(400), SiteSettings(Difference.LABELS, 1.0, 4, 0))
    same = after.index.label == samples(400).index.label
    np.testing.assert_array_equal(same, after.index.group == 0)


@pytest.mark.parametrize("differ", [Difference.COLOR, Difference.LABELS])
def test_groups_of_the_data_are_the_sites(differ):
    before = samples(groups=("amazon", "dslr", "webcam"))
    after, _ = as_sites(before, SiteSettings(differ, 1.0, 7, 0))
    assert after.index.groups == before.index.groups
    np.testing.assert_array_equal(after.index.group, before.index.group)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ((Difference.BLUR, 1.0, 1, 0), "prepare.sites is 1: choose 2 or more"),
        ((Difference.BLUR, 1.0, 21, 0), "at most 20"),
        ((Difference.LABELS, 1.5, 4, 0), r"share of the classes.*in \[0, 1\]"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, match):
    with pytest.raises(InputError, match=match):
        as_sites(samples(), SiteSettings(*settings))
