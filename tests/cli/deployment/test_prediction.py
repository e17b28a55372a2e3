import csv
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from pfl.artifacts.project import Project
from pfl.cli.deployment import model
from pfl.cli.deployment.model import load_model, scores
from pfl.cli.deployment.prediction import find_images, predict_images, probabilities
from pfl.data.client_features.feature_map import FeatureMap, open_mapped_features
from pfl.data.features.features import open_features
from pfl.data.images.images import open_images
from pfl.data.samples.clients import read_clients
from pfl.data.samples.index import read_index
from pfl.evaluation.metrics import HeadKind
from pfl.fedhip.heads import open_heads
from tests.tiny import pfl, run_stage, told
from tests.workspace import change

CLIENT = 3
SCORES = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)),
                elements=st.floats(-3, 3))  # fmt: skip


@given(SCORES)
def test_probabilities_are_probabilities_and_keep_the_largest(given_scores):
    found = probabilities(given_scores)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    rows = np.arange(len(found))
    np.testing.assert_allclose(found[rows, given_scores.argmax(1)], found.max(axis=1), atol=1e-12)


@given(SCORES, st.integers(0, 5))
def test_probabilities_are_never_farther_from_a_label(given_scores, label):
    target = np.eye(given_scores.shape[1])[label % given_scores.shape[1]]
    before = np.linalg.norm(given_scores - target, axis=1)
    after = np.linalg.norm(probabilities(given_scores) - target, axis=1)
    assert (after <= before + 1e-12).all()


@given(SCORES)
def test_probabilities_stay_as_they_are(given_scores):
    once = probabilities(given_scores)
    np.testing.assert_allclose(probabilities(once), once, atol=1e-12)


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """Test images of a client as PNG files named by their sample's number."""
    out = tmp_path_factory.mktemp("images")
    samples = read_clients(tiny / "data" / "clients.h5").test.of(CLIENT)
    with open_images(tiny / "data" / "images.h5") as images:
        for sample in samples.tolist():
            Image.fromarray(images.rgb(sample, sample + 1)[0]).save(out / f"{sample}.png")
    return out


@pytest.mark.parametrize("kind", HeadKind)
def test_images_of_the_data_get_the_scores_of_their_features(tiny, folder, kind):
    """From file to score, equal to the bit: the same features, fixed point and head."""
    model = load_model(Project(tiny), CLIENT, kind, None)
    files = find_images([folder])
    found = list(predict_images(model, files))
    assert [one.image for one in found] == [str(path) for path in files]
    with open_features(tiny / "data" / "features.h5") as features:
        for path, one in zip(files, found, strict=True):
            sample = int(path.stem)
            rows = features.rows(sample, sample + 1)
            expected = scores(rows, features.step, model.head)[0]
            np.testing.assert_allclose(one.scores, expected, rtol=0, atol=1e-12)


def test_heads_of_mapped_features_get_mapped_ones(tiny, folder, tmp_path):
    project = shutil.copytree(tiny, tmp_path / "project")
    change(project, {"features.lift": 40, "features.norm": 0.05})
    for stage in ("gram", "aggregate", "personalize"):
        run_stage(project, stage)
    model = load_model(Project(project), CLIENT, HeadKind.personalized, None)
    assert model.head.shape[0] == 40
    view = FeatureMap(lift=40, norm=0.05)
    with open_mapped_features(project / "data" / "features.h5", view) as features:
        for one in predict_images(model, find_images([folder])):
            sample = int(Path(one.image).stem)
            rows = features.rows(sample, sample + 1)
            expected = scores(rows, features.step, model.head)[0]
            np.testing.assert_allclose(one.scores, expected, rtol=0, atol=1e-12)


def test_a_prediction_does_not_depend_on_the_others(tiny, folder):
    model = load_model(Project(tiny), CLIENT, HeadKind.personalized, None)
    files = find_images([folder])
    together = list(predict_images(model, files))
    alone = next(iter(predict_images(model, files[-1:])))
    np.testing.assert_array_equal(together[-1].scores, alone.scores)


def test_the_command_tells_classes_and_writes_all_scores(tiny, folder, tmp_path):
    table = tmp_path / "scores.csv"
    words = ("predict", folder, "--client", CLIENT, "--project", tiny, "--csv", table)
    done = pfl(*words, "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)["predictions"]
    with table.open() as stream:
        lines = list(csv.DictReader(stream))
    assert [row["class"] for row in lines] == [row["class"] for row in found]
    index = read_index(tiny / "data" / "index.h5")
    for row, line in zip(found, lines, strict=True):
        assert row["class"] == max(row["scores"], key=row["scores"].get)
        assert sum(row["probabilities"].values()) == pytest.approx(1)
        for name in index.classes:
            assert float(line[f"score:{name}"]) == pytest.approx(row["scores"][name], abs=1e-6)
    truth = [index.classes[index.label[int(row["image"].split("/")[-1][:-4])]] for row in found]
    hits = np.mean([row["class"] == name for row, name in zip(found, truth, strict=True)])
    with (tiny / "reports" / "fedhip" / "per_client.csv").open() as stream:
        reported = list(csv.DictReader(stream))[CLIENT]["local-test:personalized"]
    assert hits == pytest.approx(float(reported), abs=1e-6)
    assert found[0]["class"] in pfl(*words).output


def test_an_unreadable_image_is_named_and_the_others_are_predicted(tiny, folder, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no image")
    good = sorted(folder.iterdir())[0]
    missing = tmp_path / "missing.png"
    table = tmp_path / "out.csv"
    done = pfl("predict", tmp_path / "bad.png", good, missing, "--client", CLIENT,
               "--project", tiny, "--csv", table, "--json")  # fmt: skip
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert [row["image"] for row in found["predictions"]] == [str(good)]
    assert [row["image"] for row in found["unreadable"]] == [
        str(tmp_path / "bad.png"), str(missing),
    ]  # fmt: skip
    with table.open() as stream:
        assert [bool(row["error"]) for row in csv.DictReader(stream)] == [True, False, True]
    assert "bad.png is damaged" in done.stderr


def test_a_pipe_among_images_is_told_and_not_waited_for(tiny, tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (found,) = predict_images(
        load_model(Project(tiny), CLIENT, HeadKind.shared, None), [tmp_path / "pipe.png"]
    )
    assert "pipe.png is no regular file" in found.error


def test_hidden_files_are_no_images(tmp_path):
    (tmp_path / ".hidden").write_text("")
    (tmp_path / "Thumbs.db").write_text("")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "1.png").write_text("")
    (tmp_path / "a.png").write_text("")
    assert [str(path.relative_to(tmp_path)) for path in find_images([tmp_path])] == [
        "a.png", "b/1.png",
    ]  # fmt: skip


def test_other_weights_are_refused(tiny, folder, monkeypatch):
    load = model.load_backbone
    monkeypatch.setattr(
        model, "load_backbone", lambda *given: replace(load(*given), weights_sha256="0" * 64)
    )
    done = pfl("predict", folder, "--client", CLIENT, "--project", tiny)
    assert done.exit_code == 1
    assert "have the SHA-256 00000000…, but" in told(done)
    assert "--weights" in told(done)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--client", 10), "the 10 clients have the numbers 0 to 9"),
        (("--client", -1), "the numbers 0 to 9"),
    ],
)
def test_bad_input_is_told_in_a_sentence(tiny, folder, words, message):
    done = pfl("predict", folder, "--project", tiny, *words)
    assert done.exit_code == 1
    assert message in told(done)


def test_without_artifacts_it_says_which_stage_makes_them(tmp_path):
    (tmp_path / "x.png").write_bytes(b"")
    done = pfl("predict", tmp_path / "x.png", "--client", 0, "--project", tmp_path)
    assert done.exit_code == 1
    assert "`dvc repro prepare`" in told(done)


def test_the_head_is_the_one_that_is_stored(tiny):
    model = load_model(Project(tiny), CLIENT, HeadKind.local, None)
    with open_heads(tiny / "data" / "heads.h5") as heads:
        np.testing.assert_array_equal(model.head, heads.local(CLIENT, CLIENT + 1)[0])
