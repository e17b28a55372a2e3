"""The stage leakage: findings scored against the truth, and told."""

import csv
import dataclasses
import json
import warnings

import numpy as np
import pytest
from PIL import Image

from pfl.data.client_features.by_client import by_client
from pfl.data.features.features import open_features
from pfl.data.samples.clients import Clients, assign, read_clients, write_clients
from pfl.data.samples.index import read_index
from pfl.errors import InputError
from pfl.fedhip.moments import Moments, moments
from pfl.fedhip.uploads import create_uploads
from pfl.privacy.leakage import score
from pfl.privacy.leakage.figure import draw_exposure
from pfl.privacy.leakage.report import metrics, sentence, table, words
from pfl.privacy.leakage.score import Exposure
from stages.leakage import leakage
from tests.synthetic import PLAIN, STEP, write_federation

CLIENTS, WIDTH, CLASSES, TRAINING, TESTING = 4, 30, 5, 90, 40
SIZES = (1, 8, 25, 56)  # one sample, two clients below the width, one above it


def write_inputs(folder, sizes=SIZES):
    """Every input of the stage; client k has so many training samples."""
    write_federation(folder, len(sizes), WIDTH, CLASSES, sum(sizes), TESTING)
    index, held = read_index(folder / "index.h5"), read_clients(folder / "clients.h5")
    rows = np.arange(sum(sizes))
    owner = np.repeat(np.arange(len(sizes)), sizes)
    train = assign(owner, rows, index.label[rows], len(sizes), CLASSES)
    write_clients(folder / "clients.h5", Clients(train, held.test), {})
    write_uploads(folder)


def write_uploads(folder, factor=1):
    """The uploads, their class counts multiplied."""
    index, held = read_index(folder / "index.h5"), read_clients(folder / "clients.h5").train
    with (
        open_features(folder / "features.h5") as source,
        create_uploads(folder / "uploads.h5", held.clients, WIDTH, CLASSES, STEP) as uploads,
    ):
        for own in by_client(source, index, held):
            sent = moments(own.rows, own.labels, CLASSES, STEP)
            uploads.add(own.client, Moments(sent.gram, sent.cross, sent.count * factor, STEP))


def run(folder):
    names = ("index", "clients", "features", "uploads")
    leakage(*(folder / f"{name}.h5" for name in names), folder / "report", *PLAIN)
    rows = list(csv.DictReader((folder / "report" / "per_client.csv").open()))
    return json.loads((folder / "report" / "metrics.json").read_text()), rows


@pytest.fixture
def folder(tmp_path):
    write_inputs(tmp_path)
    return tmp_path


def column(rows, name):
    return [float(row[name]) for row in rows]


def test_every_client_and_the_sum_are_told(folder):
    _, rows = run(folder)
    held = read_clients(folder / "clients.h5").train
    assert [row["client"] for row in rows] == ["0", "1", "2", "3", "total"]
    assert column(rows, "samples") == [*SIZES, TRAINING]
    assert column(rows, "classes")[:-1] == (held.count > 0).sum(1).tolist()
    assert column(rows, "rank") == [1, 8, 25, WIDTH, WIDTH]
    assert column(rows, "single")[:-1] == (held.count == 1).sum(1).tolist()


def test_clients_with_fewer_samples_than_features_are_read_exactly(folder):
    told, rows = run(folder)
    small = rows[:3]
    assert column(small, "exact") == [1, 1, 1]
    assert column(small, "miscounted") == [0, 0, 0]
    assert column(small, "counted") == column(small, "recognized") == list(SIZES[:3])
    assert column(small, "recovered") == column(small, "single")
    assert column(small, "strangers") == [TRAINING + TESTING - size for size in SIZES[:3]]
    assert column(small, "confused") == [0, 0, 0]
    assert column(small, "advantage") == [1, 1, 1]
    assert told["exact-counts"] == {"clients": 3, "samples": sum(SIZES[:3])}


def test_one_sample_alone_is_everything(folder):
    told, rows = run(folder)
    assert column(rows, "everything") == [1, 0, 0, 0, 0]
    assert told["everything"] == {"clients": 1, "samples": 1}


def test_nothing_exact_is_claimed_of_more_samples_than_features(folder):
    told, rows = run(folder)
    for row in rows[3:]:
        assert (row["exact"], row["everything"]) == ("0", "0")
        assert row["recognized"] == row["samples"]
    assert told["total"]["exact"] is False
    assert rows[4]["strangers"] == str(TESTING)


def test_the_counts_in_the_uploads_are_not_used(folder):
    def outputs():
        run(folder)
        return {path.name: path.read_bytes() for path in (folder / "report").iterdir()}

    first = outputs()
    figures = {"leakage.png", "leakage.svg"}
    assert set(first) == {"metrics.json", "per_client.csv", "leakage.md"} | figures
    write_uploads(folder, factor=7)
    assert outputs() == first


def test_same_inputs_same_bytes_whatever_the_block_and_the_threads(folder, monkeypatch):
    first = run(folder)
    monkeypatch.setattr(score, "BLOCK_ROWS", 7)
    monkeypatch.setattr("stages.leakage.cores", lambda: 3)
    assert run(folder) == first


def test_a_twin_elsewhere_is_confused_and_counted(folder, monkeypatch):
    """A sample of another client with the very same feature cannot be told from one's own."""
    with open_features(folder / "features.h5") as source:
        rows = source.rows(0, len(source)).copy()
    rows[50] = rows[0]
    monkeypatch.setattr("pfl.data.features.features.read", lambda file, name, part: rows[part])
    write_uploads(folder)
    told, found = run(folder)
    assert column(found, "confused")[:3] == [1, 0, 0]
    assert told["membership"]["clients"] == 2


def test_inputs_of_different_runs_are_refused(folder):
    with create_uploads(folder / "uploads.h5", 4, WIDTH, CLASSES, STEP, "0" * 64):
        pass
    with pytest.raises(InputError, match="different runs"):
        run(folder)


def exposure(**changes):
    base = Exposure(20, 3, 20, 1, 1, 0, True, 20, 0, 20, 80, 0, False)
    return dataclasses.replace(base, **changes)


def test_advantage_is_the_difference_of_the_two_shares():
    assert exposure().advantage == 1
    assert exposure(confused=20).advantage == pytest.approx(0.75)
    assert exposure(strangers=0).advantage == 0
    assert exposure(samples=0, recognized=0).advantage == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "1 feature stands in B as it is; the number of samples of each class is known"),
        ({"single": 3, "recovered": 2}, "3 features stand in B as they are (2 found without"),
        ({"single": 0}, "no feature stands in B by itself"),
        ({"exact": False}, "is estimated, and right"),
        ({"exact": False, "miscounted": 4}, "are estimated, off by 4 of 20 in all"),
        ({"miscounted": 4}, "come out wrong by 4 in all"),
        ({"confused": 8}, "100.0% of the images trained on, but 10.0% of the others too"),
        ({"confused": 80}, "is not told from others"),
        ({"strangers": 0}, "could not be tried"),
        ({"everything": True}, "everything is known"),
    ],
)
def test_each_finding_has_its_words(changes, said):
    assert said in sentence(exposure(**changes), 30)


def test_the_words_name_every_client_and_say_what_two_clients_mean():
    one, total = exposure(), exposure(samples=40)
    text = words([one, one], total, 30)
    assert "- Client 0, 20 samples of 3 classes, no more than the 30 features" in text
    assert "- Client 1, " in text
    assert "has the other's" in text
    assert "has that of all others" in words([one] * 3, total, 30)
    assert "There is one client" in words([one], one, 30)


def test_metrics_count_clients_and_samples_of_each_attack():
    clients = [exposure(), exposure(exact=False), exposure(confused=1, single=0, recovered=0)]
    told = metrics(clients, exposure(samples=60))
    assert told["single-feature"] == {"clients": 2, "samples": 2}
    assert told["exact-counts"] == {"clients": 2, "samples": 40}
    assert told["membership"] == {"clients": 2, "samples": 40}
    assert (told["clients"], told["samples"]) == (3, 60)
    assert len(table(clients, exposure()).splitlines()) == 5


@pytest.mark.parametrize("clients", [1, 10, 300])
def test_every_size_draws_a_picture_without_complaint(tmp_path, clients):
    shown = [exposure(samples=1 + k, confused=k % 80) for k in range(clients)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_exposure(tmp_path / "a.png", shown, exposure(samples=5000, exact=False), 30)
    with Image.open(tmp_path / "a.png") as image:
        assert min(image.size) > 400
