import json
import logging

import numpy as np
import pytest

from pfl.artifacts.hdf5 import reading
from pfl.data.client_features.clipping import clip
from pfl.data.client_features.feature_map import FeatureMap, check_feature_map, open_mapped_features
from pfl.data.client_features.random_projection import lift, projection
from pfl.data.features.features import open_features
from pfl.errors import InputError
from pfl.fedhip.families.table import Family
from pfl.fedhip.moments import moments, total
from pfl.fedhip.selection.candidates import Prior
from pfl.fedhip.uploads import copy_upload, open_uploads
from stages.aggregate import aggregate
from stages.evaluate import evaluate
from stages.gram import gram
from stages.personalize import personalize
from tests.synthetic import EXACT, STEP, write_federation

WIDTH = 12
ALL = ("auto", [], False, "auto", *EXACT)  # flags of aggregate
AUTO = (Family.AUTO, *["auto"] * 5, Prior.AUTO, "auto")  # and of personalize


@pytest.fixture
def folder(tmp_path):
    write_federation(tmp_path, 5, WIDTH, 3, 60, 80)
    return tmp_path


def test_a_view_is_its_maps_one_after_the_other(folder):
    view = FeatureMap(project=8, lift=20, norm=0.01, seed=3)
    with open_features(folder / "features.h5") as plain:
        rows = plain.rows(0, 140)
    projected = projection(WIDTH, STEP, 8, 3)
    lifted = lift(8, 20, 3)
    clipped = clip(20, lifted.step, 0.01)
    for one in (projected, lifted, clipped):
        rows, _ = one(rows)
    with open_mapped_features(folder / "features.h5", view) as seen:
        assert (seen.m, seen.step, len(seen)) == (20, clipped.step, 140)
        np.testing.assert_array_equal(seen.rows(0, 140), rows)
        np.testing.assert_array_equal(seen.rows(5, 9, np.array([2, 0])), rows[[7, 5]])
        chosen = np.array([True, False, False, True])
        np.testing.assert_array_equal(seen.rows(5, 9, chosen), rows[[5, 8]])


def test_artifacts_record_the_view():
    for view in (FeatureMap(), FeatureMap(8, 20, 0.5, 3)):
        assert FeatureMap.of(view.facts) == view
    assert FeatureMap.of({}) == FeatureMap()


def test_without_maps_features_are_as_stored(folder):
    with (
        open_features(folder / "features.h5") as plain,
        open_mapped_features(folder / "features.h5", FeatureMap()) as seen,
    ):
        assert (seen.m, seen.step) == (plain.m, plain.step)
        assert seen.rows(3, 70).tobytes() == plain.rows(3, 70).tobytes()


def test_what_is_cut_off_is_told(folder, caplog):
    with (
        caplog.at_level(logging.INFO),
        open_mapped_features(folder / "features.h5", FeatureMap(norm=1e-3)) as seen,
    ):
        seen.rows(0, 140)
    assert "140 feature rows were longer than 0.001 and clipped." in caplog.text
    caplog.clear()
    with open_mapped_features(folder / "features.h5", FeatureMap(lift=4)) as seen:
        seen.rows(0, 140)
    assert caplog.text == ""
    with open_mapped_features(folder / "features.h5", FeatureMap(lift=4)) as seen:
        full = np.where(lift(WIDTH, 4, 0).signs[:, :1].T > 0, 32767, -32767).astype(np.int16)
        seen._maps[0](full)
    assert "exceed the fixed-point range" in caplog.text


def test_what_was_made_of_another_view_is_refused():
    made = FeatureMap(lift=4, seed=1)
    check_feature_map("heads", made.facts, made)
    check_feature_map("heads", {}, made)  # made in memory
    for other in (
        FeatureMap(lift=4),
        FeatureMap(lift=5, seed=1),
        FeatureMap(lift=4, seed=1, norm=1.0),
    ):
        with pytest.raises(InputError, match="heads were made of features with other settings"):
            check_feature_map("heads", made.facts, other)


@pytest.mark.parametrize("flags", [(0, 30, "none", 1), (6, 0, "3.0", 2)])
def test_all_stages_see_the_same_features(folder, flags):
    """Gram, personalize and evaluate through a view are those of features so stored."""
    inputs = {name: folder / f"{name}.h5" for name in ("index", "clients", "features", "server")}
    project, lifted, norm, seed = flags
    view = FeatureMap(project, lifted, None if norm == "none" else float(norm), seed)
    gram(*list(inputs.values())[:3], folder / "uploads.h5", *flags)
    with open_uploads(folder / "uploads.h5") as sent:
        summed = total((sent.of(k) for k in range(5)), sent.zero)
        assert sent.view == view.facts
    copy_upload(folder / "uploads.h5", 2, folder / "one.h5")
    with open_uploads(folder / "one.h5") as one:
        assert one.view == view.facts
    with open_mapped_features(inputs["features"], view) as seen:
        rows = seen.rows(0, 60)
        label = _labels(inputs["index"])[:60]
        order = np.argsort(label, kind="stable")
        assert moments(rows[order], label[order], 3, seen.step) == summed
    upload = folder / "upload.json"
    aggregate(folder / "uploads.h5", inputs["server"], folder / "members.h5", upload, *ALL)
    personalize(*inputs.values(), folder / "members.h5", folder / "heads.h5", *AUTO, *flags)
    evaluate(*inputs.values(), folder / "heads.h5", upload, folder / "report", *flags)
    told = json.loads((folder / "report" / "metrics.json").read_text())
    assert told["fedhip:global"]["global-test"]["mean"] > 0.5


def _labels(path):
    with reading(path, "index") as file:
        return file["label"][:]
