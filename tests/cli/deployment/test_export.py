import json
import re

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open

from pfl.artifacts.project import Project
from pfl.cli.deployment import export
from pfl.cli.deployment.model import load_model, scores
from pfl.cli.deployment.network import Deployed, allowed_difference
from pfl.evaluation.metrics import HeadKind
from tests.tiny import pfl, told

CLIENT = 2


@pytest.fixture(scope="module")
def exported(tiny, tmp_path_factory):
    out = tmp_path_factory.mktemp("export") / "model"
    done = pfl("export", "--client", CLIENT, "--out", out, "--project", tiny, "--json")
    assert done.exit_code == 0, done.output
    return out, json.loads(done.stdout)


@pytest.fixture(scope="module")
def model(tiny):
    return load_model(Project(tiny), CLIENT, HeadKind.personalized, None)


def noise(n, size=16):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8, generator=generator)


def test_both_models_agree_with_the_pipeline_on_the_clients_images(exported):
    _, told = exported
    rows = told["compared-with-the-pipeline"]
    assert [row["model"] for row in rows] == ["model.pt2", "model.onnx"]
    for row in rows:
        assert row["images"] > 10
        assert row["same-class"] == row["images"]
        assert row["difference"] <= row["allowed"]


@pytest.mark.parametrize("count", [1, 5])
def test_the_files_give_the_scores_of_the_pipeline_for_any_batch(exported, model, count):
    import onnxruntime

    out, _ = exported
    pixels = noise(count)
    expected = scores(model.rows(pixels), model.step, model.head)
    found = torch.export.load(out / "model.pt2").module()(pixels).numpy()
    np.testing.assert_allclose(found, expected, atol=allowed_difference(model))
    session = onnxruntime.InferenceSession(out / "model.onnx")
    (found,) = session.run(None, {"pixels": pixels.numpy()})
    np.testing.assert_allclose(found, expected, atol=allowed_difference(model))


def test_the_graph_rounds_as_the_pipeline_does(model):
    """With the same features the scores differ by float32's rounding alone."""
    with torch.inference_mode():
        found = Deployed(model)(noise(model.batch)).numpy()
    expected = scores(model.rows(noise(model.batch)), model.step, model.head)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_head_stands_alone_with_its_classes(exported, model):
    out, _ = exported
    with safe_open(out / "head.safetensors", "numpy") as file:
        np.testing.assert_array_equal(file.get_tensor("head"), model.head)
        facts = json.loads(file.metadata()["pfl"])
    assert tuple(facts["classes"]) == model.classes
    assert facts["client"] == CLIENT


def test_the_readme_runs(exported, model, tmp_path, monkeypatch, capsys):
    out, _ = exported
    code = re.search(r"```python\n(.*?)```", (out / "README.md").read_text(), re.DOTALL)[1]
    monkeypatch.chdir(out)
    pixels = noise(1, 16)[0].permute(1, 2, 0).numpy()
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    exec(code.replace("photo.png", str(tmp_path / "photo.png")), {})
    best = scores(model.rows(model.backbone.transform.pixels([pixels])), model.step, model.head)
    assert capsys.readouterr().out.strip() == model.classes[int(best.argmax())]


def test_an_earlier_export_is_replaced_and_another_folder_is_not(tiny, exported, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    done = pfl("export", "--client", 0, "--out", tmp_path / "mine", "--project", tiny)
    assert done.exit_code == 1
    assert "is no exported model" in told(done)
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_model_that_disagrees_is_not_written(tiny, tmp_path, monkeypatch):
    out = tmp_path / "model"
    right = Deployed.forward

    def half_more(self, pixels):
        return right(self, pixels) * 1.5

    monkeypatch.setattr(Deployed, "forward", half_more)
    monkeypatch.setattr(export, "has_onnx", lambda: False)
    done = pfl("export", "--client", 0, "--out", out, "--project", tiny)
    assert done.exit_code == 1
    assert "differ from the pipeline's" in told(done)
    assert not list(tmp_path.iterdir())


def test_without_onnx_it_says_how_to_have_it(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "has_onnx", lambda: False)
    out = tmp_path / "model"
    done = pfl("export", "--client", 0, "--head", "global", "--out", out, "--project", tiny)
    assert done.exit_code == 0, done.output
    assert "pip install pfl-pipeline[export]" in told(done)
    assert not (out / "model.onnx").exists()
    assert "onnx" not in (out / "README.md").read_text()
    assert json.loads((out / "model.json").read_text())["head"] == "global"
