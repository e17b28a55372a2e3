"""What the pipeline's artifacts hold, recomputed from the raw ones with textbook formulas."""

import csv
import json

import h5py
import numpy as np
import pytest

from tests import oracles
from tests.plain_heads import plain_heads
from tests.stages.test_stages import stage_command
from tests.workspace import command

pytestmark = pytest.mark.slow

ALPHA, BETA = 3.0, 2.0


@pytest.fixture(scope="module")
def run(finished, tmp_path_factory):
    """The stages after extract, with numbers instead of automatic choices, in another folder."""
    out = tmp_path_factory.mktemp("run")
    made = {"uploads": out / "uploads.h5", "server": out / "server.h5", "heads": out / "heads.h5"}
    made["members"], upload = out / "members.h5", out / "upload.json"
    fixed = {"family": "fedhip", "alpha": ALPHA, "beta": BETA, "rho": 1.0, "prior": "none"}
    stages = {
        "gram": {"out": made["uploads"]},
        "aggregate": {"uploads": made["uploads"], "beta": BETA, "out": made["server"]},
        "personalize": {"server": made["server"], "out": made["heads"]} | fixed,
        "evaluate": {"server": made["server"], "heads": made["heads"], "report": out / "report"},
    }
    for stage in ("aggregate", "evaluate"):
        stages[stage]["upload"] = upload
    for stage in ("aggregate", "personalize"):
        stages[stage]["members"] = made["members"]
    for stage, flags in stages.items():
        command(finished, *stage_command(finished, stage, **flags))
    return out


@pytest.fixture(scope="module")
def raw(finished):
    """Features, labels and who holds what, read without the library."""
    data = finished / "data"
    with h5py.File(data / "features.h5") as features, h5py.File(data / "index.h5") as index:
        values = features["feature"][...] * features.attrs["step"]
        label, split = index["label"][...].astype(int), index["split"][...]
        classes = len(index["class-name"])
    with h5py.File(data / "clients.h5") as file:
        held = {
            part: np.split(file[part]["sample"][...], file[part]["offset"][1:-1])
            for part in ("train", "test")
        }
    return values, label, split, classes, held


def test_nobody_trains_on_test_samples(raw):
    _, _, split, _, held = raw
    assert all((split[samples] == 0).all() for samples in held["train"])
    assert all((split[samples] == 1).all() for samples in held["test"])
    assert sorted(np.concatenate(held["train"])) == np.flatnonzero(split == 0).tolist()


def test_the_global_head_is_ridge_on_all_training_samples(run, raw):
    values, label, split, classes, _ = raw
    with h5py.File(run / "server.h5") as file:
        head = file["head"][...]
    train = split == 0
    expected = oracles.ridge(values[train], label[train], classes, BETA)
    np.testing.assert_allclose(head, expected, atol=1e-9)


def test_every_clients_heads_are_what_the_paper_says(run, raw):
    values, label, split, classes, held = raw
    everybody = (values[split == 0], label[split == 0], 1.0)
    kept = plain_heads(run / "heads.h5")
    assert not any(head.bias.any() or head.prior for of in kept.values() for head in of)
    local, personalized, paper = (
        [head.weight for head in kept[kind]] for kind in ("local", "personalized", "equation-14")
    )
    for client, samples in enumerate(held["train"]):
        own = values[samples], label[samples]
        expected = oracles.ridge(*own, classes, BETA)
        np.testing.assert_allclose(local[client], expected, atol=1e-5)
        expected = oracles.weighted_ridge([everybody, (*own, ALPHA)], classes, BETA)
        np.testing.assert_allclose(personalized[client], expected, atol=1e-5)
        np.testing.assert_array_equal(personalized[client], paper[client])
        assert not np.allclose(local[client], personalized[client], atol=1e-3)


def test_the_reported_accuracies_are_those_of_the_heads(run, raw):
    values, label, split, _, held = raw
    heads = plain_heads(run / "heads.h5", run / "server.h5")
    with (run / "report" / "per_client.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    means = json.loads((run / "report" / "metrics.json").read_text(encoding="utf-8"))
    test = np.flatnonzero(split == 1)
    for name, stack in heads.items():
        own = []
        for client, head in enumerate(stack):
            hits, with_prior = (
                head.scores(values[test], mine).argmax(1) == label[test] for mine in (False, True)
            )
            mine = np.isin(test, held["test"][client])
            own.append(with_prior[mine].mean())
            assert float(rows[client][f"local-test:{name}"]) == pytest.approx(own[-1], abs=0.021)
            assert float(rows[client][f"global-test:{name}"]) == pytest.approx(
                hits.mean(), abs=3e-3
            )
        mean = means[f"fedhip:{name}"]["local-test"]["mean"]
        assert mean == pytest.approx(np.mean(own), abs=5e-3)
