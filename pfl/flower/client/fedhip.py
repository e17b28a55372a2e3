"""FedHiP at a client: its integer moments go up; sums come down; its heads and samples stay.

Phases 1 and 3 of arXiv 2508.04470, computed by the functions that the pipeline's stages ``gram``,
``personalize`` and ``evaluate`` call, hence with their result to the last bit.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from jaxtyping import Float

from pfl.data.features.fixed_point import dequantize
from pfl.evaluation.heads import even_ratio, head_group, shared_group
from pfl.evaluation.metrics import EXTERNAL_TEST, GLOBAL, HEADS, PERSONALIZED
from pfl.evaluation.scoring import HeadGroup, score_own
from pfl.fedhip.closed_form import received
from pfl.fedhip.heads import create_heads, stored_head
from pfl.fedhip.moments import Moments, moments
from pfl.fedhip.selection.candidates import personalize_settings
from pfl.fedhip.selection.choice import KEPT, Alternatives, Chosen, choose, prepare_choice
from pfl.flower.client.site import Site, site_features
from pfl.flower.messages.hello import Hello, hello_record
from pfl.flower.messages.moments import array_record, arrays_of, moments_of, moments_record
from pfl.flower.messages.reliability import sums_of
from pfl.flower.parameters import read_json, to_json

# Names of the records in messages.
SENT, SUMS, HEAD, SETTINGS, METRICS = "sent", "sums", "head", "settings", "metrics"
HITS, BY_BIN = "hits", "by-bin:"  # of a head, after its name


def greet(site: Site, *_: RecordDict) -> RecordDict:
    """Number, and the recipe of the features."""
    features = site_features(site)
    recipe = {**features.recipe, "features": features.m}
    return hello_record(Hello(site.client, recipe, site.index.classes, {}))


def zero_of(recipe: Mapping[str, object], classes: int) -> Moments:
    """The moments of no samples of this recipe."""
    return Moments.zero(int(str(recipe["features"])), classes, float(str(recipe["step"])))


def site_moments(site: Site) -> Moments:
    """What the client has to add to the sums."""
    features = site_features(site)
    rows, labels = site.samples(features, site.held.train)
    return moments(rows, labels, len(site.index.classes), features.step)


def send_moments(site: Site, *_: RecordDict) -> RecordDict:
    """Phase 1, openly."""
    return RecordDict({SENT: moments_record(site_moments(site))})


@dataclass(frozen=True)
class ServerAnswer:
    """The sums over all clients, G and its β, and the parameters' section ``personalize``."""

    total: Moments
    head: Float[np.ndarray, "m d"]
    beta: float
    section: Mapping[str, object]


def answer_record(answer: ServerAnswer) -> RecordDict:
    """The server's answer as a record; the same object serves all clients."""
    return RecordDict(
        {
            SUMS: moments_record(answer.total),
            HEAD: array_record({HEAD: answer.head}),
            SETTINGS: ConfigRecord({"beta": answer.beta, "personalize": to_json(answer.section)}),
        }
    )


def make_heads(site: Site, content: RecordDict, *_: RecordDict) -> RecordDict:
    """Phase 3: make the heads, keep them, and answer with counts only."""
    features = site_features(site)
    shape = features.m, len(site.index.classes), features.step
    alternatives = _alternatives(_Received.of(content), *shape)
    rows, labels = site.samples(features, site.held.train)
    chosen = choose(alternatives, dequantize(rows, features.step), labels)
    if site.out is not None:
        _keep(site, site.out / "heads.h5", alternatives, chosen, content)
    told: dict[str, int | float | list[int] | list[float]] = {
        "train": len(labels),
        "test": int(site.held.test.sizes[site.client]),
        EXTERNAL_TEST: len(site.held.external),
        **{f"choice:{kind}": number for kind, number in chosen.choice.items()},
        "member": chosen.member.tolist(),
        "stack": chosen.stack.tolist(),
        "prior": chosen.kept[PERSONALIZED].prior,
    }
    own, outside = site.samples(features, site.held.test), site.external(features)
    for name, head in _groups(alternatives, chosen, features.step).items():
        hits, reliable = score_own(*own, head)
        told |= {f"{name}:{HITS}": hits, **sums_of(reliable, f"{name}:{BY_BIN}")}
        told[f"{EXTERNAL_TEST}:{name}"] = score_own(*outside, replace(head, own_bias=head.bias))[0]
    return RecordDict({METRICS: MetricRecord(told)})


def _groups(alternatives: Alternatives, chosen: Chosen, step: float) -> dict[str, HeadGroup]:
    """The client's heads as the pipeline stores them: what is tested is what is kept."""
    even = even_ratio(alternatives.shares)
    own = {kind: head_group(stored_head(chosen, kind), step, even) for kind in KEPT}
    shared = shared_group(alternatives.server, alternatives.temperature, step)
    return {name: shared if name == GLOBAL else own[name] for name in HEADS}


def _keep(
    site: Site, path: Path, alternatives: Alternatives, chosen: Chosen, content: RecordDict
) -> None:
    """Store the client's heads as a ``heads.h5`` of one client, with the names of the classes."""
    facts = {name: str(value) for name, value in _section(content).items()}
    facts["classes"] = json.dumps(site.index.classes)
    with create_heads(path, 1, alternatives, facts) as heads:
        heads.add(0, chosen)


def _section(content: RecordDict) -> Mapping[str, object]:
    return read_json(content.config_records[SETTINGS]["personalize"])


@dataclass(frozen=True)
class _Received:
    """The server's answer, equal to another one with the same content."""

    digest: bytes
    content: RecordDict = field(compare=False)

    @classmethod
    def of(cls, content: RecordDict) -> "_Received":
        """A message's answer, known by the SHA-256 of its settings, sums and head."""
        settings = content.config_records[SETTINGS]
        parts = [repr(sorted(settings.items())).encode()]
        records: list[ArrayRecord] = [content.array_records[name] for name in (SUMS, HEAD)]
        parts += [array.data for record in records for array in record.values()]
        return cls(hashlib.sha256(b"".join(parts)).digest(), content)


# The virtual clients of a simulation share one decomposition, as the pipeline's do.
@lru_cache(maxsize=1)
def _alternatives(answer: _Received, features: int, classes: int, step: float) -> Alternatives:
    """What all clients choose from, made ready."""
    content = answer.content
    total = moments_of(content.array_records[SUMS], Moments.zero(features, classes, step))
    head = arrays_of(content.array_records[HEAD])[HEAD]
    beta = float(str(content.config_records[SETTINGS]["beta"]))
    settings = personalize_settings(_section(content))
    return prepare_choice(received(total, head, beta), settings)
