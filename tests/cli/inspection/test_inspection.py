import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl.artifacts.hdf5 import create
from pfl.artifacts.project import STAGES
from pfl.cli.inspection.spectra import eigenvalues
from pfl.data.samples.clients import read_clients
from pfl.fedhip.families.table import FAMILIES
from pfl.fedhip.heads import open_heads
from pfl.fedhip.server import read_server
from pfl.training.checkpoint import save_federation
from tests.plain_heads import plain_heads
from tests.tiny import pfl, told


def inspected(path, *words):
    done = pfl("inspect", path, "--json", *words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("schema", STAGES)
def test_every_artifact_says_what_it_is_and_what_made_it(tiny, schema):
    path = tiny / "data" / f"{schema}.h5"
    found = inspected(path)
    assert (found["schema"], found["made-by"]) == (f"{schema}/1", STAGES[schema])
    assert found["bytes"] == path.stat().st_size
    assert found["versions"]["numpy"] == np.__version__
    assert sum(row["bytes"] for row in found["datasets"]) < found["bytes"]
    table = pfl("inspect", path)
    assert table.exit_code == 0
    assert found["sha256"] in table.output


def test_origins_are_the_hashes_of_the_files(tiny):
    data = tiny / "data"
    for product, sources in (
        ("index", ["images"]),
        ("clients", ["index"]),
        ("uploads", ["clients", "features"]),
        ("heads", ["clients", "features", "server"]),
    ):
        found = inspected(data / f"{product}.h5")["made-from"]
        assert found == {f"{one}.h5": inspected(data / f"{one}.h5")["sha256"] for one in sources}


def test_clients_are_told_one_by_one(tiny):
    data = tiny / "data"
    held = read_clients(data / "clients.h5")
    rows = inspected(data / "clients.h5")["clients"]
    assert [row["train"] for row in rows] == held.train.sizes.tolist()
    sent = inspected(data / "uploads.h5")["clients"]
    assert [row["samples"] for row in sent] == held.train.sizes.tolist()
    one = inspected(data / "clients.h5", "--client", 2)
    assert sum(row["train"] for row in one["classes"]) == held.train.sizes[2]
    heads = inspected(data / "heads.h5")
    assert len(heads["clients"]) == held.train.clients
    made_of = [row["made-of"].split(", ") for row in heads["clients"]]
    parts = [part.split()[0] for parts in made_of for part in parts]
    assert heads["families"] == {family: parts.count(family) for family in heads["families"]}
    assert set(parts) == set(heads["families"])
    kept = plain_heads(data / "heads.h5")
    assert [row["prior"] for row in heads["clients"]] == [one.prior for one in kept["personalized"]]
    with open_heads(data / "heads.h5") as file:
        for k, row in enumerate(heads["clients"]):
            weights = {part.split()[0]: part.split()[1] for part in made_of[k]}
            pairs = zip(FAMILIES, file.stack[k].tolist(), strict=True)
            assert weights == {family: f"{weight:.2f}" for family, weight in pairs if weight > 0}
            assert row["local-beta"] == file.chosen("local")[k].beta
            assert row["alpha"] == file.chosen("equation-14")[k].alpha


def test_the_spectrum_is_that_of_the_gram(tiny):
    found = inspected(tiny / "data" / "server.h5")["spectrum-of-the-gram"]
    _, knowledge = read_server(tiny / "data" / "server.h5")
    values = np.linalg.eigvalsh(knowledge.gram)
    assert found["largest-eigenvalue"] == pytest.approx(values[-1])
    ridged = knowledge.gram + knowledge.beta * np.eye(len(values))
    assert found["condition-number-with-beta"] == pytest.approx(np.linalg.cond(ridged), rel=1e-6)
    own = inspected(tiny / "data" / "uploads.h5", "--client", 0)["spectrum-of-its-gram"]
    assert own["largest-eigenvalue"] < found["largest-eigenvalue"]


def test_a_rank_is_counted_and_a_singular_matrix_has_no_condition_number():
    rows = np.random.default_rng(0).normal(size=(3, 5))
    found = eigenvalues(rows.T @ rows)
    assert (found["rank"], found["of"], found["condition-number"]) == (3, 5, None)


def test_the_contact_sheet_has_a_row_for_each_class(tiny, tmp_path):
    sheet = tmp_path / "sheet.png"
    inspected(tiny / "data" / "images.h5", "--png", sheet)
    with Image.open(sheet) as image:
        assert image.width > 900
        assert image.height > 900  # ten rows of digits


def test_models_of_a_method_are_described_without_pytorch(tmp_path):
    path = tmp_path / "seed-0.safetensors"
    save_federation(path, federation(), {"method": "fedper", "training": {"seed": 4}})
    found = inspected(path)
    assert found["made-by"] == "train@fedper-4"
    assert found["entries"] == [{"shared-entry": "w", "shape": "2 × 3", "type": "F32"}]
    assert [row["private-numbers"] for row in found["clients"]] == [5, 0]


def federation():
    import torch

    from pfl.training.rounds import Federation, Member

    member = Member(1, {"v": torch.zeros(5)}, {})
    return Federation(1, {"w": torch.zeros(2, 3)}, (member, Member(0, {}, {})))


BAD = {
    "missing": ("heads.h5", None, "`dvc repro personalize`"),
    "another kind": ("notes.txt", b"text", "is no artifact"),
    "damaged": ("server.h5", b"pfl artifact", "does not begin like an artifact"),
    "no models": ("seed.safetensors", b"????????", "holds no models of a trained method"),
}


@pytest.mark.parametrize(("name", "content", "message"), BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_used_is_told_in_a_sentence(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = pfl("inspect", tmp_path / name)
    assert done.exit_code == 1
    assert message in told(done)


def test_an_older_schema_says_how_to_rebuild(tiny, tmp_path):
    path = Path(shutil.copy(tiny / "data" / "heads.h5", tmp_path))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"heads/1", b"heads/0", 1))
    done = pfl("inspect", path)
    assert done.exit_code == 1
    assert "run `dvc repro`, which rebuilds it" in told(done)


def test_a_client_that_is_none_is_told_the_range(tiny):
    for schema, message in (
        ("clients", "the numbers 0 to 9"),
        ("heads", "the numbers 0 to 9"),
        ("uploads", "10 clients, the first 0 and the last 9"),
    ):
        done = pfl("inspect", tiny / "data" / f"{schema}.h5", "--client", 10)
        assert done.exit_code == 1
        assert message in told(done)


def test_a_schema_without_summary_is_described_all_the_same(tmp_path):
    with create(tmp_path / "other.h5", "other", {"a": 1}):
        pass
    assert inspected(tmp_path / "other.h5")["parameters"] == {"a": 1}
