"""Phase 3 on the clients: each client's own heads from its own samples and the server's answer."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.provenance import Origins
from pfl.data.client_features.by_client import ClientSamples, by_client
from pfl.data.client_features.feature_map import check_feature_map, open_mapped_features
from pfl.data.features.fixed_point import dequantize
from pfl.data.samples.clients import read_clients
from pfl.data.samples.index import read_index
from pfl.fedhip.families.table import Family
from pfl.fedhip.heads import create_heads
from pfl.fedhip.members import read_members
from pfl.fedhip.selection.candidates import NUMBERS, Prior, personalize_settings
from pfl.fedhip.selection.choice import Chosen, choose, prepare_choice
from pfl.fedhip.server import read_server
from pfl.runtime.machine import cores
from pfl.runtime.parallel import in_order
from pfl.runtime.process import keep_memory
from pfl.runtime.progress import progress
from stages._artifacts import ClientsFile, FeaturesFile, IndexFile, ServerFile
from stages._feature_map import Lift, Norm, Project, Seed, feature_map
from stages._run import obeying, run

FREE = {"family": "auto", "prior": "auto", **dict.fromkeys(NUMBERS, "auto")}


def _number(name: str, meaning: str) -> Any:
    """The flag of a number that may be left to leave-one-out."""

    def rule(text: str) -> object:
        return personalize_settings(FREE | {name: text})

    return typer.Option(callback=obeying(rule), help=meaning)


Alpha = Annotated[str, _number("alpha", "Weight α of a client's own samples in (14), or auto.")]
Beta = Annotated[str, _number("beta", "Ridge β of the local head, above 0, or auto.")]
Rho = Annotated[str, _number("rho", "Ridge ρ of the anchored head to the global one, or auto.")]
Shrinkage = Annotated[
    str, _number("shrinkage", "Ridge λ of lda, in mean variances of a feature, or auto.")
]
Pull = Annotated[
    str, _number("pull", "Samples κ by which everybody's class means count in lda, or auto.")
]
Smoothing = Annotated[
    str, _number("smoothing", "Samples of each class, spread as everybody's, added to it, or auto.")
]


def personalize(
    index: IndexFile, clients_file: ClientsFile, features: FeaturesFile, server: ServerFile,
    members: Annotated[Path, typer.Option(help="Which clients are in the server's sums.")],
    out: Annotated[Path, typer.Option(help="Output: every client's heads.")],
    family: Annotated[Family, typer.Option(help="How the personalized head is made.")],
    alpha: Alpha, beta: Beta, rho: Rho, shrinkage: Shrinkage, pull: Pull,
    prior: Annotated[
        Prior, typer.Option(help="Whether the personalized head counts the client's class prior.")
    ],
    smoothing: Smoothing,
    project: Project, lift: Lift, norm: Norm, seed: Seed,
) -> None:  # fmt: skip
    """Choose and solve for every client's heads.

    A client that left gets none: what is chosen by leave-one-out takes the client's samples to be
    in the server's sums.
    """
    facts = {"family": family.value, "alpha": alpha, "beta": beta, "rho": rho,
             "shrinkage": shrinkage, "pull": pull, "prior": prior.value,
             "smoothing": smoothing}  # fmt: skip
    settings = personalize_settings(facts)
    seen = feature_map(project, lift, norm, seed)
    keep_memory()
    samples, clients, among = read_index(index), read_clients(clients_file), read_members(members)
    count = clients.train.clients
    alternatives = prepare_choice(read_server(server)[1], settings)
    with open_mapped_features(features, seen) as source:
        made = Origins(recorded_sha256(server, "server"), clients.sha256, source.sha256)
        among.check(count, made)
        check_feature_map("server's sums", among.view, seen)

        def work(own: ClientSamples) -> Chosen | None:
            if not among.member[own.client]:
                return None
            return choose(alternatives, dequantize(own.rows, source.step), own.labels)

        chosen = in_order(work, by_client(source, samples, clients.train), cores())
        with create_heads(out, count, alternatives, seen.facts | facts, made) as heads:
            shown = progress(chosen, count, "clients", "personalize")
            for client, own_heads in enumerate(shown):
                heads.add(client, own_heads)


if __name__ == "__main__":
    run(personalize, "out")
