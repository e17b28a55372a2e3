"""Bad input to each stage of a finished pipeline: one sentence, exit code, nothing changed."""

import shlex
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
import yaml

from pfl.artifacts.hdf5 import check, create, put, read, reading
from pfl.artifacts.provenance import Origins
from pfl.data.features.features import open_features
from pfl.data.samples.clients import read_clients
from pfl.data.samples.index import read_index
from pfl.fedhip.heads import open_heads
from pfl.fedhip.members import read_members
from pfl.fedhip.uploads import open_uploads
from tests.workspace import ENVIRONMENT, command, contents, flat

pytestmark = pytest.mark.slow


def stage_command(project, stage, /, **flags):
    """The command of dvc.yaml with the parameters of params.yaml, some flags replaced."""
    load = lambda name: yaml.safe_load((project / name).read_text(encoding="utf-8"))  # noqa: E731
    words = load("dvc.yaml")["stages"][stage]["cmd"].split()
    params = load("params.yaml")
    settings = {
        name: value
        for word in words
        if word.startswith("$")
        for name, value in flat(params[word[2:-1]])
    }
    words = [word for word in words if not word.startswith("$")]
    settings |= {key.replace("_", "-"): value for key, value in flags.items()}
    for name, value in settings.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        elif isinstance(value, list):
            words += [word for one in value for word in (f"--{name}", str(one))]
        elif f"--{name}" in words:
            words[words.index(f"--{name}") + 1] = str(value)
        else:
            words += [f"--{name}", str(value)]
    return [sys.executable, *words[1:]]


def fails(project, stage, /, **flags):
    """Run a stage that must fail without a traceback and without changing an artifact."""
    before = contents(project)
    done = command(project, *stage_command(project, stage, **flags), check=False)
    assert done.returncode in (1, 2), shlex.join(done.args) + done.stdout
    assert "Traceback" not in done.stderr
    assert contents(project) == before
    return " ".join(done.stderr.replace("│", " ").split())


@pytest.fixture(scope="module")
def shared(finished, tmp_path_factory):
    """A finished project that failing stages must leave alone."""
    return shutil.copytree(finished, tmp_path_factory.mktemp("shared") / "project", symlinks=True)


BAD = {
    "unknown data set": ("prepare", {"dataset": "imagenet"}, "'imagenet' is not one of"),
    "no data there": ("prepare", {"dataset": "npz", "path": "data/nowhere.npz"}, "nowhere.npz"),
    "a fraction of one": ("prepare", {"test_fraction": 1.0}, "test-fraction"),
    "no download": ("prepare", {"dataset": "cifar10"}, "prepare.download"),
    "unknown scheme": ("partition", {"scheme": "random"}, "'random' is not one of"),
    "a seed too large": ("partition", {"seed": 2**63}, "--seed"),
    "no test samples": ("prepare", {"test_fraction": 0}, "no test samples"),
    "a folder for a file": ("gram", {"features": "data"}, "data is a folder, not a file"),
    "a file for a folder": (
        "gram",
        {"out": "params.yaml/uploads.h5"},
        "A file is where a folder is needed",
    ),
    "a name too long": ("gram", {"out": f"data/{'x' * 300}"}, "choose a shorter one"),
    "a range too wide": ("extract", {"feature_range": 1e300}, "set extract.feature-range"),
    "no clients": ("partition", {"clients": 0}, "--clients"),
    "too many clients": ("partition", {"clients": 1000}, "1000"),
    "minimum too large": ("partition", {"min_samples": 500}, "min-samples"),
    "concentration of zero": ("partition", {"concentration": 0}, "concentration"),
    "classes without holders": (
        "partition",
        {"scheme": "pathological", "clients": 2, "classes_per_client": 2},
        "classes-per-client",
    ),
    "a seed of 64 bits": ("partition", {"seed": 2**63}, "--seed"),
    "no groups": ("partition", {"scheme": "natural"}, "group"),
    "unknown backbone": ("extract", {"backbone": "resnet51"}, "resnet51"),
    "no weights": ("extract", {"backbone": "resnet18"}, "data/weights"),
    "batch of zero": ("extract", {"batch_size": 0}, "--batch-size"),
    "unknown precision": ("extract", {"precision": "fp8"}, "'fp8' is not one of"),
    "size in words": ("extract", {"image_size": "big"}, "extract.image-size is 'big'"),
    "beta of zero": ("aggregate", {"beta": 0}, "above 0"),
    "beta below zero": ("aggregate", {"beta": -1}, "above 0"),
    "beta not a number": ("aggregate", {"beta": "nan"}, "finite"),
    "no such client": ("aggregate", {"leave_out": [2, 10]}, "numbers 0 to 9: name some of those"),
    "a client left out twice": ("aggregate", {"leave_out": [2, 2]}, "names client 2 2 times"),
    "everybody left out": ("aggregate", {"leave_out": list(range(10))}, "nobody is left"),
    "a name for a number": ("aggregate", {"leave_out": ["me"]}, "Invalid value for '--leave-out'"),
    "one neighbor": ("aggregate", {"secure": True, "neighbors": 1}, "two neighbors or more"),
    "alpha below zero": ("personalize", {"alpha": -0.1}, "personalize.alpha is '-0.1'"),
    "alpha infinite": ("personalize", {"alpha": "inf"}, "finite"),
    "own beta of zero": ("personalize", {"beta": 0}, "above 0"),
    "rho in words": ("personalize", {"rho": "much"}, "'much': it must be auto or a finite number"),
    "unknown family": ("personalize", {"family": "best"}, "'best' is not one of"),
    "shrinkage of zero": ("personalize", {"shrinkage": 0}, "personalize.shrinkage is '0'"),
    "pull in words": ("personalize", {"pull": "all"}, "personalize.pull is 'all'"),
    "unknown prior": ("personalize", {"prior": "test"}, "'test' is not one of"),
    "smoothing of zero": ("personalize", {"smoothing": 0}, "personalize.smoothing"),
    "smoothing in words": ("personalize", {"smoothing": "auto"}, "--smoothing"),
    "epsilon of zero": ("aggregate", {"privacy.epsilon": 0}, "must be none or a finite number"),
    "delta of one": (
        "aggregate",
        {"privacy.epsilon": 1, "privacy.delta": 1},
        "aggregate.privacy.delta is 1",
    ),
    "a seed in words": (
        "aggregate",
        {"privacy.seed": "public"},
        "aggregate.privacy.seed is 'public'",
    ),
    "privacy without a norm": ("aggregate", {"privacy.epsilon": 1}, "set features.norm"),
    "lift below zero": ("gram", {"lift": -1}, "--lift"),
    "lift of millions": ("gram", {"lift": 2**22}, "--lift"),
    "sums of another view": ("personalize", {"lift": 3}, "server's sums were made of features"),
    "heads of another view": ("evaluate", {"norm": 9}, "heads were made of features"),
    "uploads of another view": ("leakage", {"project": 3}, "uploads were made of features"),
    "strength not a number": ("prepare", {"strength": "nan"}, "not a finite number"),
    "projection in words": ("evaluate", {"project": "few"}, "--project"),
    "norm of zero": (
        "gram",
        {"norm": 0},
        "features.norm is '0': it must be none or a finite number",
    ),
    "norm too small": ("personalize", {"norm": 1e-300}, "set features.norm to"),
    "missing input": ("gram", {"features": "data/gone.h5"}, "data/gone.h5 does not exist"),
    "another artifact": ("gram", {"features": "data/index.h5"}, "'features/1' is needed"),
    "not an artifact": ("evaluate", {"heads": "params.yaml"}, "params.yaml is corrupt"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_a_sentence(shared, case):
    stage, flags, words = BAD[case]
    assert words in fails(shared, stage, **flags)


@pytest.mark.parametrize(
    ("stage", "name", "flag"),
    [
        ("partition", "index", "index"),
        ("extract", "images", "images"),
        ("gram", "clients", "clients_file"),
        ("gram", "features", "features"),
        ("aggregate", "uploads", "uploads"),
        ("personalize", "server", "server"),
        ("personalize", "members", "members"),
        ("evaluate", "heads", "heads"),
    ],
)
def test_a_truncated_input_is_named(shared, tmp_path, stage, name, flag):
    cut = tmp_path / f"{name}.h5"
    cut.write_bytes((shared / "data" / f"{name}.h5").read_bytes()[:-600])
    assert f"{name}.h5 is corrupt or truncated" in fails(shared, stage, **{flag: cut})


def test_inputs_of_different_runs_are_refused(shared, tmp_path):
    """Features of fewer samples than the clients hold."""
    short = tmp_path / "features.h5"
    with h5py.File(shared / "data" / "features.h5") as old:
        facts, rows = dict(old.attrs), old["feature"][:100]
    with create(short, "features", facts) as file:
        put(file, "feature", rows)
    for stage in ("gram", "personalize", "evaluate"):
        assert "dvc repro" in fails(shared, stage, features=short)


def test_products_of_other_runs_of_the_same_shape_are_refused(shared, tmp_path):
    """Another server's answer, another deal: all sizes agree, and only the origin tells."""
    files = {name: tmp_path / f"{name}.h5" for name in ("server", "members", "clients")}
    made = {"out": files["server"], "members": files["members"], "upload": tmp_path / "upload.json"}
    command(shared, *stage_command(shared, "aggregate", beta=7.0, **made))
    deal = {"clients_file": files["clients"], "report": tmp_path / "partition"}
    command(shared, *stage_command(shared, "partition", seed=1, **deal))
    for stage, flags, words in (
        ("personalize", {"server": files["server"]}, "list of members and the server's answer"),
        ("personalize", {"clients_file": files["clients"]}, "list of members and the clients"),
        ("evaluate", {"server": files["server"]}, "heads and the server's answer"),
        ("evaluate", {"clients_file": files["clients"]}, "heads and the clients"),
        ("leakage", {"clients_file": files["clients"]}, "uploads and the clients"),
    ):
        assert f"The {words} belong to different runs" in fails(shared, stage, **flags)


def test_each_file_names_what_it_was_made_from(finished):
    data = finished / "data"
    index, held = read_index(data / "index.h5"), read_clients(data / "clients.h5")
    assert held.train.index_sha256 == held.test.index_sha256 == check(data / "index.h5", "index")
    with open_features(data / "features.h5") as features:
        assert index.images_sha256 == features.images_sha256 == check(data / "images.h5", "images")
    sources = {name: check(data / f"{name}.h5", name) for name in ("server", "clients", "features")}
    with open_uploads(data / "uploads.h5") as uploads:
        assert uploads.features_sha256 == sources["features"]
        assert uploads.clients_sha256 == sources["clients"]
    assert read_members(data / "members.h5").origins == Origins(**sources)
    with open_heads(data / "heads.h5") as heads:
        assert heads.origins == Origins(**sources)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"y_train": np.arange(12) % 3 * 2}, "label"),
        ({"y_train": np.arange(12) / 2}, "label"),
        ({"y_train": np.arange(11) % 3}, "y_train"),
        ({"x_train": np.zeros((12, 4, 4))}, "uint8"),
    ],
)
def test_bad_arrays_are_refused(shared, tmp_path, arrays, words):
    good = {
        "x_train": np.zeros((12, 4, 4), np.uint8),
        "y_train": np.arange(12) % 3,
        "x_test": np.zeros((6, 4, 4), np.uint8),
        "y_test": np.arange(6) % 3,
    }
    np.savez(tmp_path / "bad.npz", **good | arrays)
    assert words in fails(shared, "prepare", dataset="npz", path=tmp_path / "bad.npz")


def test_a_full_disk_is_a_sentence_and_loses_nothing(finished, tmp_path):
    """The whole project on a real file system that is nearly full."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        project = tmp_path / "project"
        ignore = shutil.ignore_patterns("cache", "tmp", "*.png")
        shutil.copytree(finished, project, symlinks=True, ignore=ignore)
        filler = project / "filler"
        free = shutil.disk_usage(project).free
        filler.write_bytes(b"\0" * (free - 8192))
        for stage in ("prepare", "gram", "aggregate", "personalize"):
            assert "The disk is full" in fails(project, stage), stage
        filler.unlink()
        command(project, *stage_command(project, "aggregate"))
        assert contents(project)["data/server.h5"] == contents(finished)["data/server.h5"]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_features_that_are_not_finite_are_refused(shared, tmp_path):
    """Weights that make NaN: the sample is named."""
    import safetensors.torch
    import timm

    state = timm.create_model("resnet10t", num_classes=0).state_dict()
    state["conv1.0.weight"] *= float("nan")
    safetensors.torch.save_file(state, tmp_path / "resnet10t.safetensors")
    said = fails(
        shared, "extract", backbone="resnet10t", weights=tmp_path, image_size=32, device="cpu"
    )
    assert "sample 0" in said


def test_help_describes_every_flag(shared):
    for stage in (
        "prepare",
        "partition",
        "extract",
        "gram",
        "leakage",
        "aggregate",
        "personalize",
        "evaluate",
        "report",
    ):
        words = [sys.executable, "-m", f"stages.{stage}", "--help"]
        done = subprocess.run(words, cwd=shared, env=ENVIRONMENT, capture_output=True, text=True)
        assert done.returncode == 0
        flags = [line for line in done.stdout.splitlines() if "--" in line]
        assert all(len(line.replace("│", "").split()) > 3 for line in flags), done.stdout


def test_saturation_is_counted_and_explained(finished, tmp_path):
    project = shutil.copytree(finished, tmp_path / "project", symlinks=True)
    out = tmp_path / "features.h5"
    done = command(project, *stage_command(project, "extract", feature_range=0.01, out=out))
    with reading(out, "features") as file:
        limit = np.abs(read(file, "feature")).max()
        assert limit == 32767
        assert file.attrs["saturated"] > 0
    assert "set extract.feature-range to at least" in done.stderr
