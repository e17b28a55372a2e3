import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image
from safetensors import safe_open
from scipy.special import softmax

from pfl.artifacts.project import Project
from pfl.cli.deployment import export
from pfl.cli.deployment.model import load_model
from pfl.cli.deployment.network import Deployed, allowed_difference
from pfl.cli.deployment.prediction import find_images, predict_images
from pfl.data.features.fixed_point import dequantize
from pfl.data.images.decoding import decode
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
    expected = model.scores(pixels)
    found = torch.export.load(out / "model.pt2").module()(pixels).numpy()
    np.testing.assert_allclose(found, expected, atol=allowed_difference(model))
    session = onnxruntime.InferenceSession(out / "model.onnx")
    (found,) = session.run(None, {"pixels": pixels.numpy()})
    np.testing.assert_allclose(found, expected, atol=allowed_difference(model))


def test_the_graph_rounds_as_the_pipeline_does(model):
    """With the same features the scores differ by float32's rounding alone."""
    with torch.inference_mode():
        found = Deployed(model)(noise(model.batch)).numpy()
    expected = model.scores(noise(model.batch))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_head_stands_alone_with_its_classes_and_its_prior_apart(exported, model):
    out, _ = exported
    with safe_open(out / "head.safetensors", "numpy") as file:
        weight, bias, ratio = (file.get_tensor(name) for name in ("weight", "bias", "log_ratio"))
        facts = json.loads(file.metadata()["pfl"])
    assert tuple(facts["classes"]) == model.classes
    assert facts["client"] == CLIENT
    features = dequantize(model.rows(noise(4)), model.step)
    found = features @ weight + bias + facts["prior"]["power"] * ratio
    np.testing.assert_allclose(found, model.scores(noise(4)), rtol=1e-4, atol=1e-4)


def blocks(out):
    """The lines of Python of a README."""
    return re.findall(r"```python\n(.*?)```", (out / "README.md").read_text(), re.DOTALL)


def as_the_readme_says(out, image, monkeypatch, lines=1):
    """What the lines of an exported model's README leave, for an image, where pfl is not there."""
    monkeypatch.chdir(out)
    monkeypatch.syspath_prepend(out)
    monkeypatch.delitem(sys.modules, "preprocess", raising=False)
    for name in ("pfl", "jaxtyping"):
        monkeypatch.setitem(sys.modules, name, None)
    names = {}
    exec("\n".join(blocks(out)[:lines]).replace("photo.png", str(image)), names)
    monkeypatch.undo()
    return names


def test_the_readme_runs(exported, model, tmp_path, monkeypatch, capsys):
    out, _ = exported
    pixels = noise(1, 16)[0].permute(1, 2, 0).numpy()
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    names = as_the_readme_says(out, tmp_path / "photo.png", monkeypatch)
    best = model.scores(model.backbone.transform.pixels([pixels]))
    assert capsys.readouterr().out.strip() == model.classes[int(best.argmax())]
    np.testing.assert_allclose(names["probabilities"], softmax(best[0]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("words", [("--client", CLIENT), ("--client", "new")])
def test_a_site_puts_its_class_shares_in_the_place_of_the_clients(
    tiny, tmp_path, monkeypatch, words
):
    monkeypatch.setattr(export, "has_onnx", lambda: False)
    out = tmp_path / "model"
    done = pfl("export", *words, "--out", out, "--project", tiny)
    assert done.exit_code == 0, done.output
    Image.fromarray(noise(1, 16)[0].permute(1, 2, 0).numpy()).save(tmp_path / "photo.png")
    code = blocks(out)[1]
    assert "torch.full((10,), 1 / 10)" in code
    wanted = np.arange(1, 11) / 55
    text = (out / "README.md").read_text()
    changed = text.replace("torch.full((10,), 1 / 10)", f"torch.tensor({wanted.tolist()})")
    (out / "README.md").write_text(changed)
    found = as_the_readme_says(out, tmp_path / "photo.png", monkeypatch, 2)["scores"]
    (tmp_path / "shares.json").write_text(
        json.dumps({str(digit): share for digit, share in enumerate(wanted.tolist())})
    )
    done = pfl("predict", tmp_path / "photo.png", *words, "--project", tiny, "--json",
               "--prior", tmp_path / "shares.json")  # fmt: skip
    expected = list(json.loads(done.stdout)["predictions"][0]["scores"].values())
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-3, atol=1e-3)


def photographs(folder):
    """One picture, which has no symmetry and is not square, in files of every sort."""
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 256, (6, 9, 3), np.uint8))
    picture = small.resize((45, 30), Image.Resampling.BICUBIC)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    veil = Image.fromarray(np.tile(np.linspace(0, 255, 45).astype(np.uint8), (30, 1)))
    clear = picture.copy()
    clear.putalpha(veil)
    grey = np.asarray(picture.convert("L")).astype(np.uint16) * 257
    palette = picture.quantize(16)
    picture.save(folder / "plain.png")
    picture.save(folder / "turned.jpg", exif=exif)
    clear.save(folder / "alpha.png")
    clear.save(folder / "alpha.webp")
    palette.save(folder / "palette.png")
    palette.save(folder / "transparent-palette.png", transparency=3)
    palette.save(folder / "palette.gif", save_all=True, append_images=[palette.rotate(180)])
    Image.fromarray(grey).save(folder / "sixteen.png")
    Image.fromarray(grey).save(folder / "sixteen.tiff")
    picture.convert("CMYK").save(folder / "cmyk.jpg")
    picture.convert("1").save(folder / "bits.png")
    picture.resize((600, 20)).save(folder / "oblong.png")


def test_any_photograph_is_opened_as_pfl_predict_opens_it(
    tiny, exported, model, tmp_path, monkeypatch, capsys
):
    out, _ = exported
    photographs(tmp_path)
    found = list(predict_images(model, find_images([tmp_path])))
    assert len(found) == 12
    for one in found:
        assert not one.error, one.error
        names = as_the_readme_says(out, one.image, monkeypatch)
        pixels = model.backbone.transform.pixels([decode(Path(one.image).read_bytes(), "photo")])
        assert torch.equal(names["preprocess"](one.image), pixels), one.image
        scores = names["scores"].numpy()
        np.testing.assert_allclose(scores, one.scores, rtol=0, atol=allowed_difference(model))
        assert scores.argmax() == one.scores.argmax()
    shown = capsys.readouterr().out.split()
    assert shown == [model.classes[one.order[0]] for one in found]


def test_a_damaged_photograph_is_told(exported, tmp_path, monkeypatch):
    out, _ = exported
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="is damaged"):
        as_the_readme_says(out, tmp_path / "bad.png", monkeypatch)


def test_a_new_client_has_no_prior_of_its_own_to_export(tiny, tmp_path):
    for prior, message in (("own", "A new client has no samples"), ("em", "estimated from images")):
        done = pfl("export", "--client", "new", "--prior", prior, "--out", tmp_path / "model",
                   "--project", tiny)  # fmt: skip
        assert done.exit_code == 1
        assert message in told(done)
    assert not list(tmp_path.iterdir())


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
