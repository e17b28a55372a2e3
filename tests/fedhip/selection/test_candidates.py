"""The candidates: those that a family is of, with given numbers kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.errors import InputError
from pfl.fedhip.families.table import Family
from pfl.fedhip.selection.candidates import (
    ALWAYS,
    STACKED,
    PersonalizeSettings,
    Prior,
    candidates,
    of_family,
    personalize_settings,
)

NAMES = ("alpha", "beta", "rho", "shrinkage", "pull")
SECTION = {"family": "auto", "prior": "auto", "smoothing": 0.1, **dict.fromkeys(NAMES, "auto")}
given_numbers = st.fixed_dictionaries({name: st.sampled_from([None, 2.0]) for name in NAMES})


@given(st.sampled_from(list(Family)), given_numbers, st.floats(1e-6, 1e6))
def test_candidates_are_the_familys_with_numbers_kept(family, numbers, scale):
    every = candidates(PersonalizeSettings(family, **numbers), scale)
    assert {one.family for one in every} == {
        *ALWAYS,
        *(STACKED if family is Family.AUTO else {family}),
    }
    assert len(set(map(repr, every))) == len(every)
    order = [one.family.definition.locality for one in every]
    assert order == sorted(order)
    assert every[0].family is Family.GLOBAL
    for one in every:
        for name in NAMES:
            value = getattr(one, name)
            if name not in one.family.definition.grids:
                assert value != value
            else:
                assert value > 0
                assert numbers[name] is None or value == numbers[name]
    for member in {one.family for one in every}:
        assert {every[i].family for i in of_family(every, member)} == {member}
        open_names = [n for n in member.definition.grids if numbers[n] is None]
        assert (len(of_family(every, member)) > 1) == bool(open_names)


@pytest.mark.parametrize(("family", "name"), [(Family.ANCHORED, "rho"), (Family.LOCAL, "beta")])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
def test_ridges_descend_about_the_scale_of_features(family, name, scale):
    every = candidates(PersonalizeSettings(family), scale)
    values = [getattr(one, name) for one in every if one.family is family]
    assert values == sorted(values, reverse=True)
    assert values[0] > 100 * scale
    assert values[-1] < scale / 100


def test_a_section_becomes_settings():
    assert personalize_settings({**SECTION, "smoothing": "auto"}).smoothing is None
    found = personalize_settings({**SECTION, "family": "lda", "pull": 3, "prior": "none"})
    assert found == PersonalizeSettings(Family.LDA, pull=3.0, prior=Prior.NONE, smoothing=0.1)


@pytest.mark.parametrize("name", sorted(SECTION))
def test_a_missing_or_useless_value_is_named(name):
    with pytest.raises(InputError, match=rf"personalize\.{name} is missing"):
        personalize_settings({key: value for key, value in SECTION.items() if key != name})
    with pytest.raises(InputError, match=rf"personalize\.{name}"):
        personalize_settings({**SECTION, name: -1})
