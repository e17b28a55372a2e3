"""A secure sum at a client: four messages, the steps of the library's.

What it keeps between them lies in the state of its node. A step's state is replaced by the next
one's, so that none is used twice.
"""

import os
from typing import TypeVar

import numpy as np
from flwr.app import ConfigRecord, RecordDict

from pfl.errors import InputError
from pfl.flower.client.fedhip import SENT, site_moments
from pfl.flower.client.site import Site
from pfl.flower.messages.codec import decode, encode
from pfl.flower.messages.moments import array_record
from pfl.privacy.secure_aggregation import client
from pfl.privacy.secure_aggregation.messages import Introduction, Letters, Question
from pfl.privacy.secure_aggregation.vectors import to_vector

MESSAGE, KEPT = "message", "secure-sum"

Message = TypeVar("Message")
Step = TypeVar("Step", client.Secrets, client.Sharing, client.Waiting)


def message_record(message: object) -> RecordDict:
    """A message of the protocol as a record."""
    return RecordDict({MESSAGE: ConfigRecord({MESSAGE: encode(message)})})


def message_of(kind: type[Message], content: RecordDict) -> Message:
    """Inverse of :func:`message_record`."""
    return decode(kind, content.config_records[MESSAGE][MESSAGE])


def advertise(site: Site, _: RecordDict, state: RecordDict) -> RecordDict:
    """Draw secrets for a new sum, and tell the public keys."""
    secrets = client.draw_secrets(site.client, os.urandom)
    _keep(state, secrets)
    return message_record(client.advertise(secrets))


def share(site: Site, content: RecordDict, state: RecordDict) -> RecordDict:
    """Seal the secrets' shares for the neighbors."""
    secrets = _kept(state, client.Secrets, site)
    introduction = message_of(Introduction, content)
    sharing, letters = client.share(secrets, introduction, os.urandom)
    _keep(state, sharing)
    return message_record(letters)


def mask(site: Site, content: RecordDict, state: RecordDict) -> RecordDict:
    """Send the moments under all masks."""
    sharing = _kept(state, client.Sharing, site)
    letters = message_of(Letters, content)
    waiting, masked = client.mask(sharing, letters, to_vector(site_moments(site)))
    _keep(state, waiting)
    return RecordDict({SENT: array_record({SENT: np.frombuffer(masked.vector, "<u8")})})


def reveal(site: Site, content: RecordDict, state: RecordDict) -> RecordDict:
    """Give back one secret of each neighbor."""
    waiting = _kept(state, client.Waiting, site)
    waiting, answer = client.reveal(waiting, message_of(Question, content))
    _keep(state, waiting)
    return message_record(answer)


def _keep(state: RecordDict, step: Step) -> None:
    state[KEPT] = ConfigRecord({"step": type(step).__name__, "kept": encode(step)})


def _kept(state: RecordDict, kind: type[Step], site: Site) -> Step:
    kept = state.config_records.get(KEPT, ConfigRecord())
    if kept.get("step") != kind.__name__:
        raise InputError(
            f"Client {site.client} is not at this step of a secure sum: start the run again."
        )
    return decode(kind, kept["kept"])
