"""`pfl forget`, `pfl join` and `pfl upload` on files, against the aggregate stage."""

import numpy as np
import pytest
from typer.testing import CliRunner

from pfl.cli.app import app
from pfl.fedhip.members import read_members
from pfl.fedhip.moments import moments
from pfl.fedhip.uploads import create_uploads, open_uploads
from stages.aggregate import aggregate
from tests.synthetic import EXACT

CLIENTS, WIDTH, CLASSES, STEP = 6, 8, 3, 2.0**-8


def write(path, *clients):
    """What these clients send, numbered anew; each one's samples depend on its name alone."""
    with create_uploads(path, len(clients), WIDTH, CLASSES, STEP, "a", "b") as file:
        for number, client in enumerate(clients):
            rng = np.random.default_rng(client)
            rows = rng.integers(-500, 500, (20, WIDTH)).astype(np.int16)
            labels = np.sort(rng.integers(0, CLASSES, 20))
            file.add(number, moments(rows, labels, CLASSES, STEP))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "uploads.h5", *range(CLIENTS))
    return tmp_path


def fresh(folder, *left, beta="auto"):
    """What the stage makes without these clients."""
    out = folder / "fresh.h5"
    given = out, folder / "members.h5", folder / "upload.json", beta, list(left), False, "auto"
    aggregate(folder / "uploads.h5", *given, *EXACT)
    return out


def pfl(folder, *words, good=True):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert (done.exit_code == 0) is good, done.output
    assert "Traceback" not in done.output
    return " ".join(done.output.split())


@pytest.mark.parametrize("beta", ["auto", "2.5"])
def test_leaving_and_joining_give_the_bytes_of_the_stage(folder, beta):
    everybody = fresh(folder, beta=beta).rename(folder / "everybody.h5")
    out, uploads = folder / "new.h5", folder / "uploads.h5"
    leaving = ("--client", 4, "--client", 1)
    pfl(folder, "forget", uploads, *leaving, "--server", everybody, "--out", out)
    assert out.read_bytes() == fresh(folder, 1, 4, beta=beta).read_bytes()
    pfl(folder, "join", uploads, *leaving, "--server", out, "--out", out)
    assert out.read_bytes() == everybody.read_bytes()


def test_a_client_in_a_file_of_its_own_leaves_alike_and_with_others(folder):
    server = fresh(folder).rename(folder / "server.h5")
    files = [folder / f"upload-{k}.h5" for k in (5, 0)]
    for k, path in zip((5, 0), files, strict=True):
        pfl(folder, "upload", "--client", k, "--uploads", folder / "uploads.h5", "--out", path)
        with open_uploads(folder / "uploads.h5") as every, open_uploads(path) as one:
            assert one.numbers == (k,)
            assert one.of(k) == every.of(k)
            assert (one.features_sha256, one.clients_sha256) == ("a", "b")
    pfl(folder, "forget", *files, "--server", server, "--out", folder / "new.h5")
    assert (folder / "new.h5").read_bytes() == fresh(folder, 0, 5).read_bytes()


@pytest.mark.parametrize("beta", ["auto", "2.5"])
def test_leaving_out_gives_the_bytes_of_a_run_in_which_they_never_took_part(folder, beta):
    left = fresh(folder, 4, 1, beta=beta).read_bytes()
    assert read_members(folder / "members.h5").member.tolist() == [
        k not in (1, 4) for k in range(6)
    ]
    write(folder / "uploads.h5", 0, 2, 3, 5)
    assert fresh(folder, beta=beta).read_bytes() == left


def test_who_joins_late_ends_with_the_bytes_of_a_run_with_it_from_the_start(folder):
    late = folder / "late.h5"
    server = fresh(folder).rename(folder / "server.h5")
    write(late, 6)
    pfl(folder, "join", late, "--server", server, "--out", folder / "new.h5")
    write(folder / "uploads.h5", *range(CLIENTS + 1))
    assert (folder / "new.h5").read_bytes() == fresh(folder).read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["uploads.h5"], "holds 6 clients: name one with --client"),
        (["uploads.h5", "--client", "6"], "nothing of client 6, but of 6 clients, the first 0"),
        (["uploads.h5", "--client", "2", "--client", "2"], "client 2 is named 2 times"),
        (["one.h5", "one.h5"], "one.h5 is named 2 times"),
        (["one.h5", "uploads.h5", "--client", "2"], "give one file a time"),
        (["server.h5", "--client", "2"], "'uploads/1' is needed"),
        (["gone.h5"], "gone.h5 does not exist"),
        (["one.h5", "--client", "3"], "nothing of client 3, but of client 1"),
    ],
)
def test_bad_input_is_a_sentence_and_writes_nothing(folder, monkeypatch, words, message):
    fresh(folder).rename(folder / "server.h5")
    monkeypatch.chdir(folder)
    pfl(folder, "upload", "--client", 1, "--uploads", "uploads.h5", "--out", "one.h5")
    for command in ("forget", "join"):
        said = pfl(folder, command, *words, "--server", "server.h5", "--out", "new.h5", good=False)
        assert message in said
    assert not (folder / "new.h5").exists()


def test_forgetting_twice_is_refused_once_counts_show_it(folder, monkeypatch):
    fresh(folder, 0, 1, 2, 3).rename(folder / "server.h5")
    monkeypatch.chdir(folder)
    leaving = ["uploads.h5", "--client", 4, "--out", "server.h5", "--server", "server.h5"]
    pfl(folder, "forget", *leaving)
    before = (folder / "server.h5").read_bytes()
    assert "take out only what was added before" in pfl(folder, "forget", *leaving, good=False)
    assert (folder / "server.h5").read_bytes() == before
