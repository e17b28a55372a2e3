"""One client's samples in memory: small as they are stored, floats only as they are used.

Images lie there as bytes and features as 16-bit integers; a :class:`View` turns a batch of either
into what a network sees. Everything is a tensor operation on whole batches; there is no loader and
no process per client.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

EVERY = slice(None)
Batch = tuple[Float[Tensor, "b ..."], Int[Tensor, " b"]]


@runtime_checkable
class View(Protocol):
    """How stored samples become a network's input; the same for all clients."""

    def __call__(self, stored: Shaped[Tensor, "b ..."]) -> Float[Tensor, "b ..."]:
        """The input, without anything random."""
        ...

    def augmented(
        self, stored: Shaped[Tensor, "b ..."], generator: torch.Generator
    ) -> Shaped[Tensor, "b ..."]:
        """The same samples, still as stored, changed at random for training; perhaps not at all."""
        ...

    def to(self, device: torch.device) -> "View":
        """The same on another device."""
        ...


@dataclass(frozen=True)
class ClientData:
    """Samples and labels of one client.

    Attributes:
        stored: the samples in their compact form.
        label: class numbers.
        view: what a network sees of them.
        row: where in ``stored`` each sample lies, if that is shared with other samples and other
            clients; None where it holds these samples alone, in order.
    """

    stored: Shaped[Tensor, "rows ..."]
    label: Int[Tensor, " n"]
    view: View
    row: Int[Tensor, " n"] | None = None

    def __len__(self) -> int:
        """Count of samples n."""
        return len(self.label)

    def take(self, rows: Int[Tensor, " m"]) -> "ClientData":
        """The samples numbered ``rows``, in that order; what is shared stays so."""
        if self.row is None:
            return replace(self, stored=self.stored[rows], label=self.label[rows])
        return replace(self, label=self.label[rows], row=self.row[rows])

    def samples(self, rows: Int[Tensor, " b"] | slice = EVERY) -> Shaped[Tensor, "b ..."]:
        """Those of the samples, or all, in their compact form."""
        return self.stored[rows if self.row is None else self.row[rows]]

    def to(self, device: torch.device) -> "ClientData":
        """The same on another device."""
        row = None if self.row is None else self.row.to(device)
        return ClientData(self.stored.to(device), self.label.to(device), self.view.to(device), row)

    def batches(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """One pass over the data in random order; the last batch may be smaller."""
        order = torch.randperm(len(self), generator=generator).to(self.label.device)
        for start in range(0, len(self), batch_size):
            rows = order[start : start + batch_size]
            yield self.view(self.view.augmented(self.samples(rows), generator)), self.label[rows]

    def in_order(self, batch_size: int) -> Iterator[Batch]:
        """One pass in order, with nothing random, for testing."""
        for start in range(0, len(self), batch_size):
            rows = slice(start, start + batch_size)
            yield self.view(self.samples(rows)), self.label[rows]


@dataclass(frozen=True)
class TestData:
    """What trained models are tested with, never trained.

    Attributes:
        validation: each client's part of its training data that was put aside, perhaps nothing.
        pooled: the test samples of all clients, and those of their groups that belong to none.
        own: each client's rows of ``pooled``.
        external: samples of the group that takes no part, if there is one.
    """

    __test__ = False  # pytest: this is not a class of tests

    validation: Sequence[ClientData]
    pooled: ClientData
    own: Sequence[Int[Tensor, " _"]]
    external: ClientData | None

    def each(self, work: Callable[[ClientData], ClientData]) -> "TestData":
        """The same rows of data that ``work`` has changed."""
        return replace(
            self,
            validation=tuple(map(work, self.validation)),
            pooled=work(self.pooled),
            external=None if self.external is None else work(self.external),
        )

    def to(self, device: torch.device) -> "TestData":
        """The same on another device; the numbers of rows stay where they are."""
        return self.each(lambda data: data.to(device))
