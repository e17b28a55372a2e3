import csv
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl.artifacts.project import Project
from pfl.cli.deployment import model
from pfl.cli.deployment.head import load_head
from pfl.cli.deployment.model import load_model
from pfl.cli.deployment.prediction import find_images, predict_images
from pfl.data.client_features.feature_map import FeatureMap, open_mapped_features
from pfl.data.features.features import open_features
from pfl.data.features.fixed_point import dequantize
from pfl.data.images.images import open_images
from pfl.data.samples.clients import read_clients
from pfl.data.samples.index import read_index
from pfl.evaluation.metrics import HeadKind
from pfl.fedhip.heads import open_heads
from pfl.fedhip.server import read_server
from tests.tiny import pfl, run_stage, told
from tests.workspace import change

CLIENT = 3


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
            expected = model.head.scores(dequantize(rows, features.step))[0]
            np.testing.assert_allclose(one.scores, expected, rtol=0, atol=1e-12)


def test_heads_of_mapped_features_get_mapped_ones(tiny, folder, tmp_path):
    project = shutil.copytree(tiny, tmp_path / "project")
    change(project, {"features.lift": 40, "features.norm": 0.05})
    for stage in ("gram", "aggregate", "personalize"):
        run_stage(project, stage)
    model = load_model(Project(project), CLIENT, HeadKind.personalized, None)
    assert model.head.weight.shape[0] == 40
    view = FeatureMap(lift=40, norm=0.05)
    with open_mapped_features(project / "data" / "features.h5", view) as features:
        for one in predict_images(model, find_images([folder])):
            sample = int(Path(one.image).stem)
            rows = features.rows(sample, sample + 1)
            expected = model.head.scores(dequantize(rows, features.step))[0]
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
    empty = tmp_path / "empty.png"
    empty.write_bytes(b"")
    table = tmp_path / "out.csv"
    done = pfl("predict", tmp_path / "bad.png", good, empty, "--client", CLIENT,
               "--project", tiny, "--csv", table, "--json")  # fmt: skip
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert [row["image"] for row in found["predictions"]] == [str(good)]
    assert [row["image"] for row in found["unreadable"]] == [
        str(tmp_path / "bad.png"), str(empty),
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
        (("nowhere.png", "--client", CLIENT), "There is no nowhere.png"),
        (("--client", CLIENT, "--prior", "nowhere.json"), "from nowhere.json, which is no file"),
        (("--client", CLIENT, "--head", "local", "--prior", "em"), "local head counts no class"),
        (("--client", "new", "--prior", "own"), "A new client has no samples"),
        (("--client", "new", "--head", "local"), "A new client has no local head"),
    ],
)
def test_bad_input_is_told_before_a_backbone_is_loaded(tiny, folder, monkeypatch, words, message):
    def load(*given):
        raise AssertionError

    monkeypatch.setattr(model, "load_backbone", load)
    done = pfl("predict", folder, "--project", tiny, *words)
    assert done.exit_code == 1
    assert message in told(done)


def test_a_client_is_a_number_or_new(tiny, folder):
    done = pfl("predict", folder, "--project", tiny, "--client", "mine")
    assert done.exit_code == 2
    assert "'mine' is neither a number nor 'new'" in told(done)


def test_without_artifacts_it_says_which_stage_makes_them(tmp_path):
    (tmp_path / "x.png").write_bytes(b"")
    done = pfl("predict", tmp_path / "x.png", "--client", 0, "--project", tmp_path)
    assert done.exit_code == 1
    assert "`dvc repro prepare`" in told(done)


@pytest.mark.parametrize("kind", [kind for kind in HeadKind if kind is not HeadKind.shared])
def test_scores_are_those_of_what_is_stored(tiny, kind):
    """Namely scale · (x weight + bias) + prior · log-ratio, as the artifact says."""
    head = load_head(Project(tiny), CLIENT, kind)
    x = np.random.default_rng(0).normal(size=(5, head.weight.shape[0]))
    shared = read_server(tiny / "data" / "server.h5")[1].head
    with open_heads(tiny / "data" / "heads.h5") as heads:
        one = heads.of(kind.value, shared, CLIENT, CLIENT + 1)
        everybody = heads.shares
    expected = one.scale[0] * (x @ one.weight[0].astype(np.float64) + one.bias[0])
    expected += one.prior[0] * one.log_ratio[0]
    np.testing.assert_allclose(head.scores(x), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        np.log(head.shares / everybody), one.log_ratio[0], rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("client", [CLIENT, None])
def test_the_global_head_has_a_temperature_and_everybodys_shares(tiny, client):
    head = load_head(Project(tiny), client, HeadKind.shared)
    with open_heads(tiny / "data" / "heads.h5") as heads:
        np.testing.assert_allclose(head.shares, heads.shares, rtol=1e-12)
        shared = read_server(tiny / "data" / "server.h5")[1].head
        np.testing.assert_array_equal(head.weight, heads.temperature * shared)
    assert not head.offset.any()
