"""What goes together: rules between keys and sections, and with what is on the disk.

A rule that a stage has is called here, not copied, with nothing but the parameters: what only the
data, a network or a GPU can tell is left to the stages. A rule is asked where all that it needs is
right by itself.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pfl.artifacts.project import made_by
from pfl.backbones.models.given import given_weights
from pfl.cli.parameters.names import nearest
from pfl.cli.parameters.space import check_space
from pfl.data.partition.partition import Scheme
from pfl.data.partition.schemes import clients_per_group
from pfl.data.samples.external_group import check_group
from pfl.data.sources.public import find_public
from pfl.data.sources.registry import named
from pfl.data.sources.samples import NO_GROUPS, SourceRequest
from pfl.data.sources.sites import Difference, SiteSettings
from pfl.errors import InputError
from pfl.fedhip.members import without
from pfl.privacy.differential.release import Privacy
from pfl.privacy.secure_aggregation.neighbors import draw
from pfl.runtime.values import number_or_auto, whole_or_auto

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """A refusal of values that do not go together.

    Attributes:
        key: that a refusal is told of.
        needs: sections and keys that must be right by themselves; the key is one of them.
        check: raises an ``InputError``, given all values and the project's folder.
    """

    key: str
    needs: tuple[str, ...]
    check: Callable[[Values, Path], object]


def refusals(values: Values, root: Path, wrong: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Keys, with sentences on what does not go together; ``wrong`` tells of a key by itself."""
    for rule in RULES:
        if any(map(wrong, (rule.key, *rule.needs))):
            continue
        try:
            rule.check(values, root)
        except InputError as error:
            yield rule.key, str(error)


def _named(key: str, table: str) -> Callable[[Values, Path], None]:
    """Whether what a list of ``compare`` names is an entry of a table, and named once."""

    def check(values: Values, root: Path) -> None:
        names, known = values["compare"][key], values[table]
        for name in names:
            if name not in known:
                raise InputError(
                    f"compare.{key} names {name}, which the section {table} does not hold: "
                    f"{nearest(name, known)}."
                )

    return check


def _once(section: str, key: str) -> Callable[[Values, Path], None]:
    def check(values: Values, root: Path) -> None:
        for name, times in Counter(map(str, values[section][key])).items():
            if times > 1:
                raise InputError(f"{section}.{key} names {name} {times} times: name it once.")

    return check


def _sites(values: Values, root: Path) -> None:
    part = values["prepare"]
    SiteSettings(Difference(part["differ"]), float(part["strength"]), int(part["sites"]), 0)


def _groups(values: Values) -> tuple[str, ...] | None:
    """The groups of the data as far as parameters tell them; None where only the data do."""
    part = values["prepare"]
    dataset = named(part["dataset"])
    if dataset is None or dataset.grouped:
        return None
    if part["differ"] == Difference.NONE:
        return NO_GROUPS
    return tuple(f"site {site}" for site in range(int(part["sites"])))


def _external(values: Values, root: Path) -> None:
    if _groups(values) == NO_GROUPS and values["partition"]["external-group"]:
        check_group(values["partition"]["external-group"], NO_GROUPS)


def _natural(values: Values, root: Path) -> None:
    part, groups = values["partition"], _groups(values)
    if part["scheme"] == Scheme.NATURAL and groups is not None:
        clients_per_group(int(part["clients"]), len(groups) - bool(part["external-group"]))


def _staying(values: Values) -> list[int]:
    """Numbers of the clients that take part."""
    leave = values["aggregate"]["leave-out"]
    numbers = [int(client) for client in (leave if isinstance(leave, list) else [leave])]
    return np.flatnonzero(without(numbers, int(values["partition"]["clients"]))).tolist()


def _secure(values: Values, root: Path) -> None:
    part = values["aggregate"]
    if part["secure"]:
        degree = whole_or_auto(part["neighbors"], "aggregate.neighbors")
        draw(_staying(values), degree, np.random.default_rng(0))


def _privacy(values: Values, root: Path) -> None:
    part = values["aggregate"]["privacy"]
    epsilon = number_or_auto(part["epsilon"], "aggregate.privacy.epsilon", word="none")
    norm = number_or_auto(values["features"]["norm"], "features.norm", word="none")
    if epsilon is not None:
        Privacy(epsilon, float(part["delta"]), norm or 0.0)


def _there(section: str) -> Callable[[Values, Path], None]:
    """Whether DVC finds the path of a section, which it watches even if nothing is read there."""

    def check(values: Values, root: Path) -> None:
        path = values[section]["path"]
        if not (root / path).exists():
            raise InputError(
                f"{section}.path is {path}, which does not exist: name a file or folder that does, "
                "since DVC watches it; data/raw comes with the project."
            )

    return check


def _request(values: Values, root: Path, section: str) -> SourceRequest:
    part = values[section]
    return SourceRequest(root / part["path"], part["download"], 0.0, 0, section=section)


def _data(values: Values, root: Path) -> None:
    dataset = named(values["prepare"]["dataset"])
    if dataset is not None:
        dataset.locate(_request(values, root, "prepare"))


def _public(values: Values, root: Path) -> None:
    for name in values["pretraining"]["datasets"]:
        find_public(name, _request(values, root, "public"))


def _weights(values: Values, root: Path) -> None:
    """A file that ``pretrain`` makes need not be there yet."""
    part = values["extract"]
    stage = made_by(root / part["weights"]) or ""
    made, _, dataset = stage.partition("@")
    if made != "pretrain" or dataset not in values["pretraining"]["datasets"]:
        given_weights(part["backbone"], root / part["weights"])


PATHS = ("prepare.path", "prepare.dataset", "prepare.download")
RULES = (
    Rule("compare.methods", ("train",), _named("methods", "train")),
    Rule("compare.heads", ("heads",), _named("heads", "heads")),
    Rule("compare.methods", (), _once("compare", "methods")),
    Rule("compare.heads", (), _once("compare", "heads")),
    Rule("compare.seeds", (), _once("compare", "seeds")),
    Rule("pretraining.datasets", (), _once("pretraining", "datasets")),
    Rule("prepare.strength", ("prepare.differ", "prepare.sites"), _sites),
    Rule("partition.external-group", ("prepare",), _external),
    Rule("partition.scheme", ("prepare", "partition"), _natural),
    Rule("aggregate.leave-out", ("partition.clients",), lambda values, root: _staying(values)),
    Rule("aggregate.secure", ("aggregate", "partition.clients"), _secure),
    Rule("aggregate.privacy", ("features.norm",), _privacy),
    Rule("prepare.path", (), _there("prepare")),
    Rule("public.path", ("pretraining",), _there("public")),
    Rule("prepare.path", PATHS, _data),
    Rule("public.path", ("public.download", "pretraining"), _public),
    Rule("extract.weights", ("extract.backbone", "pretraining"), _weights),
    Rule("partition.clients", ("prepare.path", "features", "partition"), check_space),
)
