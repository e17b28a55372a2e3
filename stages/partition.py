"""partition: who holds which samples (``index.h5`` → ``clients.h5``)."""

from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Option

from pfl.artifacts.csv import csv_text
from pfl.artifacts.files import write_text
from pfl.data.partition.partition import PartitionSettings, Scheme, partition_samples
from pfl.data.partition.schemes import CONCENTRATIONS
from pfl.data.samples.clients import Clients, write_clients
from pfl.data.samples.index import read_index
from stages._run import LARGEST_SEED, finite, run


def partition(
    index: Annotated[Path, Option(help="The sample index.")],
    clients_file: Annotated[Path, Option(help="Output: who holds which samples.")],
    report: Annotated[Path, Option(help="Output folder: counts.csv and counts.png.")],
    scheme: Annotated[
        Scheme, Option(help="How training samples are spread; see docs/partition.md.")
    ],
    clients: Annotated[int, Option(min=1, help="Number of clients K.")],
    concentration: Annotated[
        float,
        Option(
            min=CONCENTRATIONS[0],
            max=CONCENTRATIONS[1],
            callback=finite,
            help="Dirichlet concentration, small is heterogeneous. "
            "Schemes dirichlet and quantity; ignored by the others.",
        ),
    ],
    classes_per_client: Annotated[
        int,
        Option(min=1, help="Most classes of a client. Scheme pathological; ignored by the others."),
    ],
    min_samples: Annotated[
        int, Option(min=1, help="Training samples that every client has at least.")
    ],
    external_group: Annotated[
        str, Option(help="Name of a group that is no client's but the external test, or empty.")
    ],
    seed: Annotated[int, Option(min=0, max=LARGEST_SEED, help="Seed of every random choice.")],
) -> None:
    """Deal training samples by a scheme, and test samples after the training distribution."""
    # Imported here because it takes long, which --help and a wrong flag need not wait for.
    from pfl.data.partition.figure import draw_counts

    samples = read_index(index)
    settings = PartitionSettings(
        scheme, clients, concentration, classes_per_client, min_samples, external_group
    )
    dealt = partition_samples(samples, settings, np.random.default_rng(seed))
    facts = settings.used() | {"seed": seed}
    write_clients(clients_file, dealt, facts | {"index-sha256": samples.sha256})
    write_text(report / "counts.csv", counts(dealt, samples.classes))
    shown = ", ".join(f"{name} {value}" for name, value in facts.items())
    title = f"Who holds what: samples of each client and class\n{shown}"
    draw_counts(report / "counts.png", dealt.train.count, dealt.test.count, samples.classes, title)


def counts(dealt: Clients, classes: tuple[str, ...]) -> str:
    """Samples per client, split and class, one line of CSV a client."""
    header = ["client", "train", "test"]
    header += [f"{split}:{name}" for split in ("train", "test") for name in classes]
    train, test = dealt.train, dealt.test
    rows = np.column_stack(
        [np.arange(train.clients), train.sizes, test.sizes, train.count, test.count]
    )
    return csv_text(header, rows.tolist())


if __name__ == "__main__":
    run(partition, "clients_file", "report")
