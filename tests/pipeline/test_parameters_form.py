"""params.yaml has the form that DVC writes back, so that a change through DVC is one line."""

import difflib
import shutil
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides
from dvc.utils.serialize import modify_yaml

from tests.workspace import ROOT


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copy(ROOT / "params.yaml", tmp_path))


def changed(path):
    """Lines that differ from the original: those that went and those that came."""
    texts = ((ROOT / "params.yaml").read_text().splitlines(), path.read_text().splitlines())
    lines = [*difflib.ndiff(*texts)]
    return [sum(line.startswith(f"{sign} ") for line in lines) for sign in "-+"]


def test_what_dvc_writes_back_is_what_it_read(copy):
    with modify_yaml(copy):
        pass
    assert changed(copy) == [0, 0]


@pytest.mark.parametrize(
    "override",
    [
        "partition.clients=12",
        "partition.external-group=Rome",
        "prepare.download=true",
        "personalize.alpha=0.5",
        "aggregate.privacy.delta=0.001",
        "pretrain.learning-rate=1e-5",
        "rounds.network=resnet18",
        "train.cd2-pfed.cross=none",
        "heads.fedavg-ft.settings.epochs=7",
    ],
)
def test_a_parameter_of_an_experiment_is_one_line(copy, override):
    """As ``dvc exp run -S`` sets it."""
    apply_overrides(copy, [override])
    assert changed(copy) == [1, 1]


def test_one_more_entry_of_a_list_is_one_more_line(copy):
    apply_overrides(copy, ["compare.seeds=[0,1]"])
    assert changed(copy) == [0, 1]
