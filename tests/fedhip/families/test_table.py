"""The table of families: whatever is defined beside it is in it, and in one order."""

import importlib
import pkgutil
from dataclasses import fields

import pytest

from pfl.fedhip import families
from pfl.fedhip.families.family import HeadFamily, Parameters
from pfl.fedhip.families.table import FAMILIES, Candidate, Family
from pfl.fedhip.selection.candidates import PersonalizeSettings


def test_every_family_that_a_module_defines_is_in_the_table_once():
    defined = {
        id(value)
        for module in pkgutil.iter_modules(families.__path__, f"{families.__name__}.")
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, HeadFamily)
    }
    listed = [id(family.definition) for family in FAMILIES]
    assert len(listed) == len(defined) == len(Family) - 1  # all but auto
    assert set(listed) == defined


def test_families_have_an_order_without_ties():
    assert sorted(f.definition.locality for f in FAMILIES) == list(range(len(FAMILIES)))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_parameter_can_be_fixed_and_stored(family):
    for record in (Parameters, PersonalizeSettings):
        assert set(family.definition.grids) <= {field.name for field in fields(record)}


def test_the_first_parameter_varies_along_a_path():
    assert Candidate(Family.FEDHIP, alpha=2.0).along == 2.0
    assert Candidate(Family.LDA, shrinkage=3.0, pull=7.0).along == 3.0
    assert Candidate(Family.ANCHORED, rho=4.0).along == 4.0
    assert Candidate(Family.LOCAL, beta=5.0).along == 5.0
    assert Candidate(Family.GLOBAL).along != Candidate(Family.GLOBAL).along  # NaN


def test_a_family_is_its_name():
    assert Family("fedhip") is Family.FEDHIP
    names = ["fedhip", "anchored", "lda", "local", "global", "auto"]
    assert [family.value for family in Family] == names
