"""Each artifact is damaged, replaced or falsified in turn, and `pfl verify` names it."""

import json
import shutil

import numpy as np
import pytest

from pfl.artifacts.project import STAGES
from tests.tiny import flip, pfl, pipeline, rewrite, run_stage, told
from tests.workspace import change

AFTER_IMAGES = ("partition", "extract", "gram", "aggregate", "personalize", "evaluate")


@pytest.fixture
def project(tiny, tmp_path):
    """A copy of its own."""
    return shutil.copytree(tiny, tmp_path / "project")


@pytest.fixture(scope="module")
def older(tiny, tmp_path_factory):
    """Another run on the same images: other clients and features, so other everything."""
    folder = tmp_path_factory.mktemp("older") / "project"
    values = {"partition.seed": 1, "extract.image-size": 20}
    pipeline(folder, values, stages=("prepare", *AFTER_IMAGES))
    return folder


def verified(project, *words):
    done = pfl("verify", "--project", project, "--json", *words)
    assert "Traceback" not in done.output
    return done, json.loads(done.stdout)


def wrong(project):
    """What is named as the first wrong artifact, and why."""
    done, found = verified(project)
    assert done.exit_code == 1
    assert f"Error: {found['first-wrong']} is wrong" in done.stderr
    assert found["checks"][-1]["result"] == "wrong", "it stops there"
    return found["first-wrong"], found["why"]


def test_a_finished_pipeline_is_right(tiny):
    done, found = verified(tiny)
    assert done.exit_code == 0, done.output
    assert found["first-wrong"] is None
    results = {(row["artifact"], row["check"]): row["result"] for row in found["checks"]}
    skipped = {check for (_, check), result in results.items() if result == "skipped"}
    assert skipped == {"DVC"}, "it was run without"
    assert results["data/heads.h5", "calibration"] == "ok"
    assert results["data/heads.h5", "equations"] == "ok"
    assert results["reports/fedhip", "accuracies"] == "ok"


def test_quick_leaves_out_what_recomputes(tiny):
    done, found = verified(tiny, "--quick")
    assert done.exit_code == 0
    skipped = [row["check"] for row in found["checks"] if "--quick" in row["detail"]]
    assert skipped == ["sums sent", "equations", "accuracies"]


@pytest.mark.parametrize("schema", STAGES)
def test_a_changed_byte_is_found(project, schema):
    path = project / "data" / f"{schema}.h5"
    flip(path)
    assert wrong(project)[0] == f"data/{schema}.h5"


@pytest.mark.parametrize("schema", STAGES)
def test_a_missing_artifact_is_named_with_its_stage(project, schema):
    (project / "data" / f"{schema}.h5").unlink()
    name, why = wrong(project)
    assert name == f"data/{schema}.h5"
    assert f"`dvc repro {STAGES[schema]}`" in why


# Without DVC nothing says which of two files that do not go together is the older one: the one
# downstream is named.
REPLACED = {
    "clients": ("data/uploads.h5", "belong to different runs"),
    "features": ("data/uploads.h5", "belong to different runs"),
    "uploads": ("data/uploads.h5", "belong to different runs"),
    "server": ("data/server.h5", "sums in server.h5"),
    "members": ("data/members.h5", "belong to different runs"),
    "heads": ("data/heads.h5", "belong to different runs"),
}


@pytest.mark.parametrize("schema", REPLACED)
def test_an_artifact_of_an_older_run_is_found(project, older, schema):
    shutil.copy(older / "data" / f"{schema}.h5", project / "data")
    name, why = wrong(project)
    expected, message = REPLACED[schema]
    assert name == expected
    assert message in why


def test_other_images_are_found(project, tmp_path):
    other = pipeline(tmp_path / "other", {"prepare.test-fraction": 0.4}, stages=("prepare",))
    shutil.copy(other / "data" / "images.h5", project / "data")
    assert wrong(project)[0] == "data/index.h5"
    shutil.copy(other / "data" / "index.h5", project / "data")
    assert wrong(project)[0] == "data/clients.h5"


def other_owner(samples):
    samples[0] = samples[1]


def one_more(values):
    values.flat[0] += 1


def nobody(member):
    member[0] = not member[0]


def a_thousandth(values):
    values[values.shape[0] // 2] *= 1.001


def a_hundredth_more(values):
    values[values.shape[0] // 2, 0] += 0.01


def negative(values):
    values[values.shape[0] // 2] = -0.5


def infinite(values):
    values[values.shape[0] // 2] = np.inf


def double(values):
    values[values.shape[0] // 2] *= 2


def another_family(member):
    """The first part is of a candidate of another family."""
    own = member[member.shape[0] // 2]
    own[np.flatnonzero(own >= 0)[0]] = 0 if own[own >= 0][0] else 1


def nothing(values):
    values[values.shape[0] // 2] = 0


CLIENT_5 = "personalized head of client 5"
FALSE = {
    "a sample dealt twice": ("clients", "train/sample", other_owner, "has two clients"),
    "a wrong count": ("clients", "test/count", one_more, "counts of test samples"),
    "a wrong sum": ("uploads", "client/000002/cross", one_more, "client 2"),
    "a wrong count sent": ("uploads", "client/000003/count", one_more, "Client 3"),
    "another member": ("members", "member", nobody, "sums in server.h5"),
    "a wrong total": ("server", "gram", one_more, "sums in server.h5"),
    "another global head": ("server", "head", a_thousandth, "The global head"),
    "another head": ("heads", "personalized/weight", a_thousandth, CLIENT_5),
    "another bias": ("heads", "personalized/bias", a_hundredth_more, CLIENT_5),
    "another local head": ("heads", "local/weight", a_thousandth, "local head of client 5"),
    "a local bias": ("heads", "local/bias", a_hundredth_more, "local head of client 5"),
    "another head of the paper": (
        "heads", "equation-14/weight", a_thousandth, "equation-14 head of client 5"
    ),
    "a bias in the paper's": (
        "heads", "equation-14/bias", a_hundredth_more, "equation-14 head of client 5"
    ),
    "other parts": ("heads", "personalized/factor", double, CLIENT_5),
    "a part of another family": ("heads", "personalized/member", another_family, CLIENT_5),
    "parts without weight": ("heads", "personalized/stack", nothing, CLIENT_5),
    "weights below zero": ("heads", "personalized/stack", negative, CLIENT_5),
    "a scale below zero": ("heads", "personalized/scale", negative, CLIENT_5),
    "a scale without end": ("heads", "local/scale", infinite, "local head of client 5"),
    "a prior that counts backwards": (
        "heads", "global-prior/prior", negative, "global-prior head of client 5 has the prior -0.5"
    ),
    "a prior in a local head": ("heads", "local/prior", one_more, "local head of client 0 counts"),
    "a prior in the paper's": (
        "heads", "equation-14/prior", one_more, "equation-14 head of client 0 counts"
    ),
    "another prior": ("heads", "log-ratio", a_hundredth_more, "class prior of client 5"),
    "other shares of classes": ("heads", "share", double, "everybody's shares of classes"),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "dataset", "edit", "message"), FALSE.values(), ids=FALSE)
def test_false_content_under_a_right_checksum_is_found(project, schema, dataset, edit, message):
    rewrite(project / "data" / f"{schema}.h5", schema, dataset, edit)
    name, why = wrong(project)
    # Of the list of members and the sums that it is of, the sums are downstream.
    assert name == f"data/{schema}.h5".replace("members", "server")
    assert message in why


OF_SAMPLES = [
    *(f"{kind}/scale" for kind in ("local", "global-prior", "equation-14", "personalized")),
    "global-prior/prior", "personalized/prior", "personalized/stack",
]  # fmt: skip


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_what_only_samples_tell_of_a_head_is_found_by_the_report(project, name):
    """Its probabilities are others, or it is another sum."""
    rewrite(project / "data" / "heads.h5", "heads", name, tenth_more)
    found, why = wrong(project)
    assert found == "reports/fedhip"
    assert "of client 0" in why


def tenth_more(values):
    values *= 1.1


def test_another_scale_of_the_global_head_is_found(project):
    path = project / "data" / "heads.h5"
    rewrite(path, "heads", "share", lambda values: None, {"temperature": 1.0})
    name, why = wrong(project)
    assert name == "data/heads.h5"
    assert "global head's scale is 1, not" in why


def test_a_head_that_is_made_of_nothing_is_found(project):
    path = project / "data" / "heads.h5"
    for name in ("stack", "factor"):
        rewrite(path, "heads", f"personalized/{name}", nothing)
    rewrite(path, "heads", "personalized/member", lambda values: values[5].fill(-1))
    name, why = wrong(project)
    assert name == "data/heads.h5"
    assert "personalized head of client 5 is made of nothing" in why


def test_a_group_that_takes_no_part_is_no_fault_but_has_to_be_whole(tmp_path):
    values = {
        "prepare.differ": "blur",
        "partition.scheme": "natural",
        "partition.clients": 3,
        "partition.external-group": "site 2",
    }
    folder = pipeline(tmp_path / "project", values)
    done, found = verified(folder)
    assert done.exit_code == 0, done.output
    details = [row["detail"] for row in found["checks"] if row["check"] == "partition"]
    assert "samples are external" in details[0]
    assert "external-samples" in json.loads(
        pfl("inspect", folder / "data/clients.h5", "--json").stdout
    )
    rewrite(folder / "data" / "clients.h5", "clients", "external", exchanged)
    assert wrong(folder) == ("data/clients.h5", wrong(folder)[1])
    assert "no whole group" in wrong(folder)[1]


def exchanged(values):
    values[0] += 1 if values[1] > values[0] + 1 else -1


@pytest.mark.parametrize("name", ["metrics.json", "per_client.csv"])
def test_reported_accuracies_that_the_heads_do_not_have_are_found(project, name):
    path = project / "reports" / "fedhip" / name
    text = path.read_text()
    digit = text.rindex("0.")
    path.write_text(text[:digit] + "7." + text[digit + 2 :])
    found, why = wrong(project)
    assert found == "reports/fedhip"
    assert name in why
    assert "dvc repro evaluate" in why
    path.unlink()
    assert name in wrong(project)[1]


def test_with_all_it_goes_on_and_skips_what_would_tell_nothing_new(project):
    flip(project / "data" / "clients.h5")
    flip(project / "data" / "server.h5")
    _, found = verified(project, "--all")
    named = [row["artifact"] for row in found["checks"] if row["result"] == "wrong"]
    assert named == ["data/clients.h5", "data/server.h5"]
    skipped = {row["check"]: row["detail"] for row in found["checks"] if row["result"] == "skipped"}
    assert "data/clients.h5 must be right first" in skipped["partition"]
    assert "data/server.h5" in skipped["accuracies"]


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["images", "clients", "features", "heads"])
def test_with_dvc_a_replaced_artifact_itself_is_named(finished, older, tmp_path, schema):
    """Whole, of the right schema and going with what is upstream: only dvc.lock knows better."""
    project = shutil.copytree(finished, tmp_path / "project", symlinks=True)
    if schema == "images":
        other = pipeline(tmp_path / "other", {"prepare.test-fraction": 0.4}, stages=("prepare",))
    else:
        other = older
    shutil.copy(other / "data" / f"{schema}.h5", project / "data")
    name, why = wrong(project)
    assert name == f"data/{schema}.h5"
    assert f"data/{schema}.h5: modified" in why


@pytest.mark.slow
def test_dvcs_state_is_part_of_it(finished, tmp_path):
    """All is right; then a parameter is changed, and the stage that has it is named."""
    project = shutil.copytree(finished, tmp_path / "project", symlinks=True)
    done, found = verified(project)
    assert done.exit_code == 0, done.output
    assert found["skipped"] == 0
    change(project, {"aggregate.beta": 3.0})
    name, why = wrong(project)
    assert name == "data/members.h5", "the first that aggregate makes"
    assert "aggregate" in why
    (project / "dvc.lock").unlink()
    done, found = verified(project)
    assert done.exit_code == 0
    assert "no dvc.lock" in told(done)


@pytest.mark.slow
def test_a_trained_model_that_was_changed_is_named(finished, tmp_path):
    project = shutil.copytree(finished, tmp_path / "project", symlinks=True)
    flip(project / "runs" / "fedavg" / "seed-0.safetensors")
    assert wrong(project)[0] == "runs/fedavg/seed-0.safetensors"


@pytest.mark.parametrize("prior", ["auto", "none"])
@pytest.mark.parametrize("family", ["fedhip", "anchored", "lda", "local", "global"])
def test_heads_of_every_family_are_checked(project, family, prior):
    change(project, {"personalize.family": family, "personalize.prior": prior})
    run_stage(project, "personalize")
    name, _ = wrong(project)
    assert name == "reports/fedhip", "the heads are right, and the report is of other ones"
    _, found = verified(project)
    details = {row["check"]: row["detail"] for row in found["checks"]}
    assert details["origins"].endswith(f"parts of: 10 {family}")
    assert "backward error" in details["equations"]


def test_clients_that_were_left_out_have_no_heads_and_are_no_fault(project, tmp_path):
    change(project, {"aggregate.leave-out": [2, 5]})
    for stage in ("aggregate", "personalize", "evaluate"):
        run_stage(project, stage)
    done, found = verified(project)
    assert done.exit_code == 0, done.output
    details = {(row["artifact"], row["check"]): row["detail"] for row in found["checks"]}
    assert details["data/members.h5", "members"] == "all clients but [2, 5]"
    assert details["data/heads.h5", "origins"].startswith("8 clients")
    assert "left out" in pfl("inspect", project / "data" / "heads.h5", "--client", 2).output
    (tmp_path / "x.png").write_bytes(b"")
    words = ("predict", tmp_path / "x.png", "--client", 2, "--project", project)
    assert "has no head of its own" in told(pfl(*words))
    assert "has no head of its own" not in told(pfl(*words, "--head", "global"))


def test_mapped_features_and_private_sums_are_no_fault(project, tmp_path):
    change(project, {"features.lift": 40, "features.norm": 0.05, "aggregate.privacy.epsilon": 9.0})
    for stage in ("gram", "aggregate", "personalize", "evaluate"):
        run_stage(project, stage)
    done, found = verified(project)
    assert done.exit_code == 0, done.output
    details = {(row["artifact"], row["check"]): row["detail"] for row in found["checks"]}
    assert details["data/server.h5", "sums"].startswith("private")
    change(project, {"features.seed": 1})
    run_stage(project, "gram")
    assert "through different maps" in verified(project, "--all")[0].output
    words = ("export", "--client", 3, "--out", tmp_path / "model", "--project", project)
    assert "exported model knows no maps" in told(pfl(*words))
