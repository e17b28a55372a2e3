"""What docs/determinism.md guarantees, as far as one machine can play others."""

import subprocess
import sys

import pytest

from benchmarks.determinism import VARIATIONS, replay
from tests.workspace import ENVIRONMENT, ROOT

EVERYTHING = (
    "prepare", "partition", "extract", "gram", "aggregate", "personalize", "evaluate",
    "train@fedavg-0", "heads@fedavg-0",
)  # fmt: skip
PARALLEL = ("extract", "gram", "personalize", "evaluate", "train@fedavg-0", "heads@fedavg-0")
KERNELS = VARIATIONS["OpenBLAS: Prescott"] | VARIATIONS["NumPy: baseline"]
# Everything that is exact by its arithmetic, of the same 3,000 random rows.
INTEGERS = """
import hashlib
import numpy as np
from pfl.data.client_features.clipping import clip
from pfl.fedhip.moments import moments
from pfl.data.features.fixed_point import quantize
from pfl.data.client_features.random_projection import lift, projection
rng = np.random.default_rng(0)
floats = rng.standard_normal((3000, 700), np.float32)
rows = quantize(floats, 2.0**-12).values
labels = np.sort(rng.integers(0, 9, 3000))
found = moments(rows, labels, 9, 2.0**-12)
parts = [rows, found.gram, found.cross, found.count]
parts += [view(rows)[0] for view in (lift(700, 300, 0), projection(700, 2.0**-12, 300, 0))]
parts.append(clip(700, 2.0**-12, 3.0)(rows)[0])
print(hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
"""


def digest(variation):
    """SHA-256 of the integers, made under a variation."""
    words = [sys.executable, "-W", "ignore", "-c", INTEGERS]
    environment = ENVIRONMENT | {"PYTHONPATH": str(ROOT)} | dict(variation)
    return subprocess.run(words, env=environment, capture_output=True, check=True, text=True).stdout


def test_integers_are_the_same_with_other_kernels_and_threads():
    expected = digest({})
    assert len(expected) == 65
    for variation in (KERNELS, VARIATIONS["OpenBLAS: Haswell"], VARIATIONS["two threads"]):
        assert digest(variation) == expected


@pytest.mark.slow
def test_two_threads_change_no_byte(finished):
    assert list(replay(finished, EVERYTHING, VARIATIONS["two threads"])) == []


@pytest.mark.slow
def test_the_number_of_workers_changes_no_byte(finished):
    assert list(replay(finished, PARALLEL, VARIATIONS["one core"])) == []


@pytest.mark.slow
def test_other_kernels_of_blas_and_numpy_change_floats_alone(finished):
    """The global head, and the hash of the file it is in."""
    stages = ("prepare", "partition", "gram", "aggregate")
    differing = dict(replay(finished, stages, KERNELS))
    assert differing.keys() <= {"data/server.h5", "data/members.h5"}
    assert differing.pop("data/members.h5", "attributes alone") == "attributes alone"
    for told in differing.values():
        assert told.startswith("head:")
        assert ";" not in told
