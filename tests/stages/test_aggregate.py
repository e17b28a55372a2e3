"""The stage on small uploads: the secure sum gives the same bytes."""

import numpy as np
import pytest
import typer

from pfl.errors import InputError
from pfl.fedhip.moments import moments
from pfl.fedhip.uploads import create_uploads
from stages.aggregate import aggregate
from tests.synthetic import EXACT

WIDTH, CLASSES, STEP = 6, 3, 2.0**-8


def write_uploads(path, clients, seed=0):
    rng = np.random.default_rng(seed)
    with create_uploads(path, clients, WIDTH, CLASSES, STEP) as file:
        for client in range(clients):
            rows = rng.integers(-32768, 32768, (20, WIDTH)).astype(np.int16)
            labels = np.sort(rng.integers(0, CLASSES, 20))
            file.add(client, moments(rows, labels, CLASSES, STEP))
    return path


def run(folder, clients, beta="auto", leave_out=(), secure=True, neighbors="auto"):
    uploads, out = write_uploads(folder / "uploads.h5", clients), folder / "server.h5"
    aggregate(uploads, out, folder / "members.h5", beta, list(leave_out), secure, neighbors, *EXACT)
    return out.read_bytes()


@pytest.mark.parametrize("beta", ["auto", "1.0"])
@pytest.mark.parametrize(("clients", "neighbors"), [(3, "auto"), (8, "auto"), (12, "4")])
def test_the_secure_sum_is_the_plain_one_to_the_byte(tmp_path, clients, neighbors, beta):
    plain = run(tmp_path, clients, beta, secure=False)
    assert run(tmp_path, clients, beta, neighbors=neighbors) == plain


def test_who_is_left_out_sends_nothing_masked_either(tmp_path, caplog):
    plain = run(tmp_path, 4, leave_out=[1], secure=False)
    assert run(tmp_path, 4, leave_out=[1]) == plain
    assert not caplog.records
    run(tmp_path, 4, leave_out=[1, 2])
    assert "each learns from the sum what the other sent" in caplog.text


def test_one_client_is_refused_and_of_two_a_warning_says_what_they_learn(tmp_path, caplog):
    with pytest.raises(InputError, match="two clients or more, not 1"):
        run(tmp_path, 1)
    plain = run(tmp_path, 2, secure=False)
    assert not caplog.records
    assert run(tmp_path, 2) == plain
    assert "each learns from the sum what the other sent" in caplog.text


def test_neighbors_that_are_no_number_are_refused(tmp_path):
    with pytest.raises(typer.BadParameter, match="'all': it must be auto or"):
        run(tmp_path, 3, neighbors="all")
    with pytest.raises(InputError, match="two neighbors or more"):
        run(tmp_path, 3, neighbors="1")
