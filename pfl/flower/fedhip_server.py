"""FedHiP at the server: who is there, the sum of what they send, the answer, and the report.

Phase 2 of arXiv 2508.04470. One round: moments up, sums down, metrics back.
"""

import logging
from collections.abc import Iterable, Mapping

from flwr.app import RecordDict
from flwr.serverapp import Grid

from pfl.fedhip import aggregate
from pfl.flower.exchange import Exchange, wait_for_nodes
from pfl.flower.fedhip_client import SENT, Answer, answer_record, zero_of
from pfl.flower.fedhip_report import Achieved, parse_achieved, write_report
from pfl.flower.handshake import Hello, greet
from pfl.flower.kinds import FEATURES, HEADS, MOMENTS
from pfl.flower.ledger import Ledger, open_ledger
from pfl.flower.parameters import RunSettings, Section, head_settings, number_or_auto
from pfl.flower.records import moments_of
from pfl.moments import Moments
from pfl.selection.sums import choose_beta, global_path
from pfl.server import write_server

log = logging.getLogger(__name__)


def run_fedhip(grid: Grid, settings: RunSettings, sections: Section) -> None:
    """One run from greeting to report.

    Raises:
        InputError: a client failed and the run is to stop then, or nobody is left.
    """
    section = sections["personalize"]
    head_settings(section)  # Found out now if no client could use it.
    beta = number_or_auto(sections["aggregate"], "aggregate.beta")
    net = Exchange(grid, settings.reply_seconds, settings.on_fault == "go-on")
    nodes = wait_for_nodes(grid, settings.clients, settings.wait_seconds)
    hellos = _greet(net, nodes, settings.fingerprint)
    ledger = open_ledger(settings.state, zero_of(next(iter(hellos.values())).recipe))
    for client in settings.leave:
        ledger.leave(client)
    hellos = _stay(hellos, settings.leave)
    _collect(net, ledger, hellos)
    # Whoever connected meanwhile is late, not lost: the sum takes it as it takes the others.
    late = _latecomers(net, set(nodes), next(iter(hellos.values())).fingerprint)
    late = _stay(late, settings.leave)
    _collect(net, ledger, late)
    answer = _solve(ledger.total, beta, section)
    write_server(settings.report / "server.h5", answer.total, aggregate(answer.total, answer.beta))
    achieved = _personalize(net, answer, {**hellos, **late}, ledger)
    write_report(settings.report, answer, achieved, net)


def _greet(net: Exchange, nodes: Iterable[int], wanted: str) -> dict[int, Hello]:
    return greet(net, {node: RecordDict() for node in nodes}, FEATURES, wanted)


def _latecomers(net: Exchange, known: set[int], wanted: str) -> dict[int, Hello]:
    nodes = sorted(set(net.grid.get_node_ids()) - known)
    return _greet(net, nodes, wanted) if nodes else {}


def _stay(hellos: Mapping[int, Hello], leaving: Iterable[int]) -> dict[int, Hello]:
    gone = set(leaving)
    return {node: hello for node, hello in hellos.items() if hello.client not in gone}


def _collect(net: Exchange, ledger: Ledger, hellos: Mapping[int, Hello]) -> None:
    """Add what each client sends that is not in the sum yet, as it arrives."""
    new = {n: RecordDict() for n, hello in hellos.items() if hello.client not in ledger.members}
    zero = ledger.total - ledger.total

    def join(node: int, content: RecordDict) -> bool:
        ledger.join(net.names[node], moments_of(content.array_records[SENT], zero))
        return True

    for _ in net.ask(new, MOMENTS, join):
        pass


def _solve(total: Moments, beta: float | None, section: Section) -> Answer:
    """Phase 2, as the stage ``aggregate``."""
    ridge = choose_beta(global_path(total)) if beta is None else beta
    return Answer(total, aggregate(total, ridge).head, ridge, section)


def _personalize(
    net: Exchange, answer: Answer, hellos: Mapping[int, Hello], ledger: Ledger
) -> dict[int, Achieved]:
    """Send the answer to all members that are there; what each client's heads achieve."""
    record = answer_record(answer)
    members = {n: record for n, hello in hellos.items() if hello.client in ledger.members}
    answers = net.ask(members, HEADS, parse_achieved)
    return {net.names[node]: one for node, one in answers}
