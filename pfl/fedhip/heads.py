"""What each client keeps, as the artifact ``heads.h5``.

One group for each kind of head: ``local``, ``global-prior``, ``equation-14`` and ``personalized``.
A client's class scores of features x are

    scale · (x weight + bias) + prior · log-ratio,

and their softmax its probabilities. ``weight`` (K, m, d) and ``bias`` (K, d) are float32 after
being computed in float64; ``global-prior`` has none of its own but uses G of ``server.h5``.
``scale`` and ``prior`` are numbers of each client, ``log-ratio`` (K, d), beside the groups, is
log p_k(c)/π_c of :mod:`pfl.runtime.class_prior`, and ``share`` π_c. A site whose classes come in
other shares puts its own in the place of p_k.

How the heads came about: the group ``candidate`` lists ``family`` and parameters of every head a
client could choose, NaN where a family has no such parameter. ``choice`` in ``local`` and
``equation-14`` are the numbers of the client's. ``personalized/member`` has for each family, in the
order of ``personalized/family``, the number of the candidate that is in the personalized head,
``stack`` its weight there, calibrated, and ``factor`` how often its weights W are in ``weight``.
``leave-one-out`` is the penalized cross-entropy of every candidate at every client,
(K, candidates), NaN where none was computed.

A client that left has no heads: its choices are ``NO_CHOICE`` and its rows NaN.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Bool, Float, Int

from pfl.artifacts.hdf5 import Attribute, create, put, put_text, read, read_text, reading, reserve
from pfl.artifacts.provenance import UNKNOWN, Origins
from pfl.fedhip.families.family import Parameters
from pfl.fedhip.families.table import FAMILIES, Candidate, Family
from pfl.fedhip.selection.choice import (
    EQUATION_14,
    KEPT,
    LOCAL,
    NO_CHOICE,
    PERSONALIZED,
    Alternatives,
    Chosen,
)

PARAMETERS = tuple(parameter.name for parameter in fields(Parameters))
WEIGHTED = (LOCAL, EQUATION_14, PERSONALIZED)  # kinds with weights of their own
MADE_OF = ("member", "stack", "factor")
TEMPERATURE = "temperature"


@dataclass(frozen=True)
class HeadWriter:
    """Adds clients, in ascending order, to an open ``heads.h5``."""

    file: h5py.File

    def add(self, client: int, chosen: Chosen | None) -> None:
        """Store one client's heads, or that it left."""
        if chosen is None:
            return  # what is reserved says that there is nothing
        for kind, one in chosen.kept.items():
            group = self.file[kind]
            group["scale"][client], group["prior"][client] = one.scale, one.prior
            if kind in WEIGHTED:
                group["weight"][client], group["bias"][client] = one.head.weight, one.head.bias
        for kind, number in chosen.choice.items():
            self.file[kind]["choice"][client] = number
        group = self.file[PERSONALIZED]
        for name in MADE_OF:
            group[name][client] = getattr(chosen, name)
        self.file["log-ratio"][client] = chosen.log_ratio
        self.file["leave-one-out"][client] = chosen.objective


@contextmanager
def create_heads(
    path: Path,
    clients: int,
    alternatives: Alternatives,
    attributes: Mapping[str, Attribute],
    origins: Origins = UNKNOWN,
) -> Iterator[HeadWriter]:
    """Create ``heads.h5`` of K clients for these alternatives, and say what it is made from."""
    features, classes = alternatives.server.head.shape
    temperature = {TEMPERATURE: alternatives.temperature}
    facts = {**attributes, **temperature, **origins.attributes()}
    with create(path, "heads", facts, packages=("numpy", "scipy")) as file:
        _put_candidates(file.create_group("candidate"), alternatives.candidates)
        for kind in KEPT:
            group = file.create_group(kind)
            for name in ("scale", "prior"):
                reserve(group, name, (clients,), np.float64, np.nan)
            if kind in WEIGHTED:
                reserve(group, "weight", (clients, features, classes), np.float32, np.nan)
                reserve(group, "bias", (clients, classes), np.float32, np.nan)
        for kind in (LOCAL, EQUATION_14):
            reserve(file[kind], "choice", (clients,), np.int32, NO_CHOICE)
        group = file[PERSONALIZED]
        put_text(group, "family", [family.value for family in FAMILIES])
        reserve(group, "member", (clients, len(FAMILIES)), np.int32, NO_CHOICE)
        for name in ("stack", "factor"):
            reserve(group, name, (clients, len(FAMILIES)), np.float64, np.nan)
        put(file, "share", alternatives.shares)
        reserve(file, "log-ratio", (clients, classes), np.float64, np.nan)
        shape = (clients, len(alternatives.candidates))
        reserve(file, "leave-one-out", shape, np.float64, np.nan)
        yield HeadWriter(file)


def _put_candidates(group: h5py.Group, candidates: Sequence[Candidate]) -> None:
    put_text(group, "family", [candidate.family.value for candidate in candidates])
    for name in PARAMETERS:
        put(group, name, np.array([getattr(candidate, name) for candidate in candidates]))


@dataclass(frozen=True)
class StoredHeads:
    """Heads of some clients as they are stored: scale · (x weight + bias) + prior · log-ratio."""

    weight: Float[np.ndarray, "k m d"]
    bias: Float[np.ndarray, "k d"]
    scale: Float[np.ndarray, " k"]
    prior: Float[np.ndarray, " k"]
    log_ratio: Float[np.ndarray, "k d"]


def stored_head(chosen: Chosen, kind: str) -> StoredHeads:
    """A client's head of one kind as it would be read again."""
    one = chosen.kept[kind]
    return StoredHeads(
        one.head.weight.astype(np.float32)[None],
        one.head.bias.astype(np.float32)[None],
        np.array([one.scale]),
        np.array([one.prior]),
        chosen.log_ratio[None],
    )


@dataclass(frozen=True)
class Heads:
    """An open ``heads.h5``; heads are read a range of clients at a time.

    Attributes:
        candidates: what a client could choose.
        origins: what the heads were made from.
    """

    file: h5py.File
    candidates: tuple[Candidate, ...]
    origins: Origins

    @property
    def shape(self) -> tuple[int, int, int]:
        """(K, m, d)."""
        clients, features, classes = self.file[PERSONALIZED]["weight"].shape
        return clients, features, classes

    def of(self, kind: str, shared: Float[np.ndarray, "m d"], start: int, stop: int) -> StoredHeads:
        """Heads of one of the kinds ``KEPT`` of clients ``start`` to ``stop``; ``shared`` is G."""
        group, part = self.file[kind], slice(start, stop)
        scale, prior = read(group, "scale", part), read(group, "prior", part)
        log_ratio = read(self.file, "log-ratio", part)
        if kind in WEIGHTED:
            weight, bias = read(group, "weight", part), read(group, "bias", part)
        else:
            weight = np.broadcast_to(shared.astype(np.float32), (len(scale), *shared.shape))
            bias = np.zeros((len(scale), shared.shape[1]), np.float32)
        return StoredHeads(weight, bias, scale, prior, log_ratio)

    @property
    def temperature(self) -> float:
        """The scale of G for somebody with nothing to calibrate with."""
        return float(self.file.attrs[TEMPERATURE])

    @property
    def shares(self) -> Float[np.ndarray, " d"]:
        """π_c, everybody's shares of classes."""
        return read(self.file, "share")

    @cached_property
    def stack(self) -> Float[np.ndarray, "clients families"]:
        """The weight of each family in each personalized head; NaN for a client that left."""
        return read(self.file[PERSONALIZED], "stack")

    @cached_property
    def member(self) -> Int[np.ndarray, "clients families"]:
        """Numbers of the candidates that personalized heads are made of."""
        return read(self.file[PERSONALIZED], "member")

    def made_of(self, client: int) -> dict[Family, tuple[Candidate, float]]:
        """What a client's personalized head is the weighted sum of, and how often each is in it."""
        factors = read(self.file[PERSONALIZED], "factor", slice(client, client + 1))[0].tolist()
        rows = zip(FAMILIES, self.member[client].tolist(), factors, strict=True)
        return {
            family: (self.candidates[number], weight)
            for family, number, weight in rows
            if number != NO_CHOICE
        }

    def prior(self, kind: str) -> Float[np.ndarray, " clients"]:
        """γ of each client's head of a kind; NaN for a client that left."""
        return read(self.file[kind], "prior")

    def chosen(self, kind: str) -> tuple[Candidate | None, ...]:
        """What each L_k, or each head of (14), is; None for a client that left."""
        numbers = read(self.file[kind], "choice").tolist()
        return tuple(None if i == NO_CHOICE else self.candidates[i] for i in numbers)

    @cached_property
    def stayed(self) -> Bool[np.ndarray, " clients"]:
        """Which clients did not leave."""
        return np.array(read(self.file[LOCAL], "choice") != NO_CHOICE, bool)

    @property
    def objective(self) -> Float[np.ndarray, "clients candidates"]:
        """Penalized leave-one-out cross-entropy of every candidate at every client, in nats."""
        return read(self.file, "leave-one-out")


@contextmanager
def open_heads(path: Path) -> Iterator[Heads]:
    """Open ``heads.h5`` for reading."""
    with reading(path, "heads") as file:
        group = file["candidate"]
        columns = [read(group, name).tolist() for name in PARAMETERS]
        candidates = (
            Candidate(Family(family), **dict(zip(PARAMETERS, row, strict=True)))
            for family, *row in zip(read_text(group, "family"), *columns, strict=True)
        )
        yield Heads(file, tuple(candidates), Origins.of(file))
