"""The short form of :mod:`tests.faults.corruption`: all artifacts at once, then one by one."""

import itertools

import numpy as np
import pytest

from tests.faults.corruption import DAMAGES, READERS, finished, noticed, repaired

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    return folder, *finished(folder)


def test_everything_damaged_at_once_is_repaired(project):
    folder, older, present = project
    rng, kinds = np.random.default_rng(0), itertools.cycle([*DAMAGES.values(), None])
    for name, kind in zip(present, kinds, strict=False):
        if kind is not None:
            kind(folder / name, rng)
        elif name in older:
            (folder / name).write_bytes(older[name])
    repaired(folder, present)


@pytest.mark.parametrize("number", range(len(READERS)))
def test_the_reader_names_a_damaged_artifact(project, number):
    folder, _, present = project
    name = list(READERS)[number]
    kind = list(DAMAGES)[number % len(DAMAGES)]
    DAMAGES[kind](folder / name, np.random.default_rng(number))
    try:
        assert name in noticed(folder, name)
    finally:
        (folder / name).write_bytes(present[name])
