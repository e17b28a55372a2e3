"""The stage on small uploads: the secure sum gives the same bytes."""

import json
import logging

import numpy as np
import pytest

from pfl.errors import InputError
from pfl.fedhip.moments import moments
from pfl.fedhip.uploads import create_uploads, open_uploads, packed, widened
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
    given = beta, list(leave_out), secure, neighbors
    aggregate(uploads, out, folder / "members.h5", folder / "upload.json", *given, *EXACT)
    return out.read_bytes()


def test_half_a_neighbor_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"aggregate\.neighbors is '?2\.5'?: .* auto or a whole"):
        run(tmp_path, 8, neighbors="2.5")


@pytest.mark.parametrize("beta", ["auto", "1.0"])
@pytest.mark.parametrize(("clients", "neighbors"), [(3, "auto"), (8, "auto"), (12, "4")])
def test_the_secure_sum_is_the_plain_one_to_the_byte(tmp_path, clients, neighbors, beta):
    plain = run(tmp_path, clients, beta, secure=False)
    assert run(tmp_path, clients, beta, neighbors=neighbors) == plain


def sent(folder):
    told = json.loads((folder / "upload.json").read_text())
    return told["clients"], told["secure"], told["upload-bytes"]


def test_what_was_sent_is_the_members_uploads(tmp_path):
    """A secure sum sends 8 bytes a number, whatever it is, and keys, letters and shares beside."""
    run(tmp_path, 4, leave_out=[1], secure=False)
    with open_uploads(tmp_path / "uploads.h5") as file:
        members = [file.of(client) for client in (0, 2, 3)]
    arrays = [packed(one) for one in members]
    size = sum(part.itemsize * part.size for one in arrays for part in one.values())
    assert sent(tmp_path) == (3, False, size)
    for one, own in zip(members, arrays, strict=True):
        assert np.array_equal(widened(own["cross"], own.get("cross-high")), one.cross[own["class"]])
    run(tmp_path, 4, leave_out=[1])
    numbers = WIDTH * (WIDTH + 1) // 2 + CLASSES * WIDTH + CLASSES
    assert sent(tmp_path) == (3, True, 3 * (8 * numbers + 2 * 32 + 2 * (12 + 2 * 33 + 16 + 33)))


def test_who_is_left_out_sends_nothing_masked_either(tmp_path, caplog):
    plain = run(tmp_path, 4, leave_out=[1], secure=False)
    assert run(tmp_path, 4, leave_out=[1]) == plain
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    run(tmp_path, 4, leave_out=[1, 2])
    assert "each learns from the sum what the other sent" in caplog.text


def test_one_client_is_refused_and_of_two_a_warning_says_what_they_learn(tmp_path, caplog):
    with pytest.raises(InputError, match="two clients or more, not 1"):
        run(tmp_path, 1)
    plain = run(tmp_path, 2, secure=False)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert run(tmp_path, 2) == plain
    assert "each learns from the sum what the other sent" in caplog.text


def test_neighbors_that_are_no_number_are_refused(tmp_path):
    with pytest.raises(InputError, match="'all': it must be auto or"):
        run(tmp_path, 3, neighbors="all")
    with pytest.raises(InputError, match="two neighbors or more"):
        run(tmp_path, 3, neighbors="1")
