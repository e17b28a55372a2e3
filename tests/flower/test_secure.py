"""The secure sum over Flower: the plain sum to the byte, losses survived, nothing single seen."""

import os

import numpy as np
import pytest
import yaml

pytest.importorskip("flwr")

from pfl.errors import InputError
from pfl.fedhip.uploads import open_uploads
from pfl.flower.messages.codec import decode, encode
from pfl.flower.messages.kinds import MASK, MOMENTS, REVEAL
from pfl.privacy.secure_aggregation.client import Waiting, draw_secrets, share
from pfl.privacy.secure_aggregation.messages import Advert, Introduction, Letters, Question
from pfl.privacy.secure_aggregation.simulation import secure_sum
from pfl.privacy.secure_aggregation.vectors import to_vector
from tests.flower.test_fedhip import (
    CLIENTS,
    PARAMETERS,
    dies,
    node,
    pipeline,  # noqa: F401 (a fixture)
    reports,
    run,
    total_without,
)


@pytest.fixture
def secure(tmp_path):
    """Parameters with a secure sum."""
    path = tmp_path / "secure.yaml"
    aggregate = PARAMETERS["aggregate"] | {"secure": True, "neighbors": "auto"}
    path.write_text(yaml.safe_dump(PARAMETERS | {"aggregate": aggregate}))
    return {"params": str(path)}


def test_the_total_is_the_plain_one_and_nothing_single_is_seen(pipeline, secure, tmp_path):  # noqa: F811
    seen = {}

    def look(message, answer):
        seen[message.metadata.message_type] = answer.content
        return answer

    grid = run(pipeline, tmp_path / "out", faults={node(1): look}, **secure)
    assert (tmp_path / "out" / "server.h5").read_bytes() == (pipeline / "server.h5").read_bytes()
    with open_uploads(pipeline / "uploads.h5") as uploads:
        _, size = secure_sum(range(CLIENTS), lambda k: to_vector(uploads.of(k)), os.urandom)
    assert reports(tmp_path / "out")["fedhip:global"]["upload-bytes"] == size
    assert MOMENTS not in {kind for _, kind in grid.asked}
    sent = seen[MASK].array_records["sent"]["sent"].numpy()
    with open_uploads(pipeline / "uploads.h5") as uploads:
        plain = to_vector(uploads.of(1))
    assert sent.shape == plain.shape and not (sent == plain).any()


@pytest.mark.parametrize("kinds", [{MASK, REVEAL}, {REVEAL}])
def test_a_client_that_is_lost_on_the_way(pipeline, secure, tmp_path, kinds):  # noqa: F811
    """Lost before its vector it is not in the sum; after it, it is."""
    settings = {"on_fault": "go-on", "reply_seconds": 0.3, **secure}
    out = tmp_path / "out"
    run(pipeline, out, faults={node(2): dies(kinds | {"evaluate.heads"})}, **settings)
    full = (pipeline / "server.h5").read_bytes()
    expected = total_without(pipeline, tmp_path / "never", 2) if MASK in kinds else full
    assert (out / "server.h5").read_bytes() == expected
    assert reports(out)["run"]["faults"][0].startswith("Client 2 (node")


def test_a_vector_of_another_length_is_named(pipeline, secure, tmp_path):  # noqa: F811
    def longer(message, answer):
        if message.metadata.message_type == MASK:
            record = answer.content["sent"]
            record["sent"] = type(record["sent"])(np.append(record["sent"].numpy(), np.uint64(1)))
        return answer

    with pytest.raises(InputError, match=r"Client 3 .*masked vector is uint64"):
        run(pipeline, tmp_path, faults={node(3): longer}, **secure)


def test_what_keeps_single_uploads_is_refused(pipeline, secure, tmp_path):  # noqa: F811
    with pytest.raises(InputError, match="which a secure sum hides"):
        run(pipeline, tmp_path, state=str(tmp_path / "state"), **secure)


def test_messages_and_states_come_back_as_they_were():
    rng = np.random.default_rng(0)
    secrets = [draw_secrets(k, rng.bytes) for k in range(CLIENTS)]
    advert = Advert(2, b"\x00\xff", b"")
    peers = tuple(Advert(k, s.sealing_key, s.mask_key) for k, s in enumerate(secrets) if k)
    sharing, letters = share(secrets[0], Introduction(0, peers, 2), rng.bytes)
    waiting = Waiting(sharing, letters.sealed, Question(0, (1, 2), (3,)))
    for one in (advert, letters, sharing, waiting, Waiting(sharing, {}), Letters(1, {})):
        assert decode(type(one), encode(one)) == one


def test_text_of_something_else_is_no_message():
    with pytest.raises(ValueError, match="missing required field"):
        decode(Question, encode(Advert(1, b"", b"")))
    with pytest.raises(ValueError, match="Expected `int`"):
        decode(Question, '{"client": "1", "present": [], "lost": []}')
