"""The group that takes no part: no client holds a sample of it, and every method is tested on it.

The external test of CD2-pFed's HISTO-FED (three centres train, a fourth one tests; arXiv
2204.03880) and, with each group in turn, leave-one-domain-out. ``partition`` decides which group
it is and stores its samples in ``clients.h5`` (:attr:`pfl.data.samples.clients.Clients.external`).
So training needs to know nothing of it, and whoever tests on everybody's samples asks
:func:`common_test`.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

from pfl.data.samples.clients import Clients
from pfl.data.samples.index import Index
from pfl.errors import InputError
from pfl.runtime.spelling import find_name


def outside(index: Index, name: str) -> Bool[np.ndarray, " n"]:
    """Mask of the samples of the group ``name``, those of both splits; of none if it is empty.

    Raises:
        InputError: there is no such group, it has no samples, or it leaves nothing to train or to
            test with.
    """
    if not name:
        return np.zeros(len(index.label), bool)
    found = check_group(name, index.groups)
    mask: np.ndarray = np.equal(index.group, index.groups.index(found))
    others = [group for group in index.groups if group != found]
    if not mask.any():
        raise InputError(f"The external-group '{name}' has no samples: {_choices(others)}.")
    for split, rows in (("training", index.train), ("test", index.test)):
        if not (rows & ~mask).any():
            raise InputError(
                f"The external-group '{name}' has all {split} samples, which leaves none for "
                f"clients: {_choices(others)}."
            )
    return mask


def check_group(name: str, groups: Sequence[str]) -> str:
    """The one of the groups that is meant.

    Raises:
        InputError: there is none.
    """
    found = find_name(name, groups)
    if found is None:
        raise InputError(
            f"The external-group is '{name}', which is no group of these data: {_choices(groups)}."
        )
    return found


def _choices(groups: Sequence[str]) -> str:
    """What to do instead."""
    if len(groups) < 2:
        return "set it to '' for none, or give prepare data with groups"
    return f"choose one of {', '.join(groups)}, or '' for none"


def inside(
    group: Int[np.ndarray, " n"], groups: Sequence[str], name: str
) -> tuple[Int[np.ndarray, " n"], tuple[str, ...]]:
    """Numbers and names of the groups without ``name``, for samples of which none is in it."""
    if not name:
        return group, tuple(groups)
    place = groups.index(find_name(name, groups) or name)
    return group - (group > place), (*groups[:place], *groups[place + 1 :])


def common_test(index: Index, clients: Clients) -> Bool[np.ndarray, " n"]:
    """Mask of the test samples that are everybody's: all but those of the external group."""
    mask = index.test.copy()
    mask[clients.external] = False
    return mask
