"""What the tests of all sources share."""

import numpy as np

from pfl.data.sources.samples import SourceRequest


def request(path, *, download=False, fraction=0.25, seed=0):
    return SourceRequest(path, download, fraction, seed)


def check_law(samples):
    """What holds of every source: one entry each, training first, numbers within their names."""
    index = samples.index
    n = len(samples.images)
    assert len(index.label) == len(index.split) == len(index.group) == n
    assert (np.diff(index.split) >= 0).all()
    assert set(np.unique(index.label)) <= set(range(len(index.classes)))
    assert set(np.unique(index.group)) <= set(range(len(index.groups)))
