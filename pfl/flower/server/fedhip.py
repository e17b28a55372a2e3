"""FedHiP at the server: who is there, the sum of what they send, the answer, and the report.

Phase 2 of arXiv 2508.04470. One round: moments up, sums down, metrics back.
"""

from collections.abc import Iterable, Mapping

from flwr.app import RecordDict
from flwr.serverapp import Grid

from pfl.errors import InputError
from pfl.fedhip.membership import solve_sums
from pfl.fedhip.selection.candidates import personalize_settings
from pfl.fedhip.server import write_server
from pfl.flower.client.fedhip import SENT, ServerAnswer, answer_record, zero_of
from pfl.flower.messages.hello import Hello
from pfl.flower.messages.kinds import FEATURES, HEADS, MOMENTS
from pfl.flower.messages.moments import moments_of
from pfl.flower.parameters import (
    RunSettings,
    Section,
    check_plain_sums,
    left_out_clients,
)
from pfl.flower.server.exchange import Exchange, wait_for_nodes
from pfl.flower.server.greeting import first_of, greet
from pfl.flower.server.ledger import Ledger, keep_classes, kept_classes, open_ledger
from pfl.flower.server.report import Told, parse_told, write_report
from pfl.flower.server.secure import secure_total
from pfl.runtime.values import number_or_auto, whole_or_auto


def run_fedhip(grid: Grid, settings: RunSettings, sections: Section) -> None:
    """One run from greeting to report.

    Raises:
        InputError: a client failed and the run is to stop then, or nobody is left.
    """
    section, phase2 = sections["personalize"], sections["aggregate"]
    check_plain_sums(sections)
    personalize_settings(section)  # Found out now if no client could use it.
    beta = number_or_auto(phase2.get("beta"), "aggregate.beta")
    left_out = left_out_clients(phase2)
    net = Exchange(grid, settings.reply_seconds, settings.on_fault == "go-on")
    nodes = wait_for_nodes(grid, settings.clients, settings.wait_seconds)
    if settings.state is not None:
        net.classes = kept_classes(settings.state)
    hellos = _greet(net, nodes, settings.fingerprint)
    if settings.state is not None:
        keep_classes(settings.state, net.classes)
    if phase2.get("secure"):
        ledger = _secure(net, _stay(hellos, left_out), settings, phase2)
    else:
        ledger, hellos = _plain(net, hellos, settings, set(nodes), left_out)
    total = ledger.total
    knowledge = solve_sums(total, beta)
    write_server(settings.report / "server.h5", total, knowledge, automatic=beta is None)
    answer = ServerAnswer(total, knowledge.head, knowledge.beta, section)
    achieved = _personalize(net, answer, hellos, ledger)
    write_report(settings.report, answer, achieved, ledger.upload_bytes, net)


def _plain(
    net: Exchange,
    hellos: dict[int, Hello],
    settings: RunSettings,
    known: set[int],
    left_out: frozenset[int],
) -> tuple[Ledger, dict[int, Hello]]:
    """The sum of all members, and who is there; clients leave first and join then."""
    first = first_of(hellos)
    ledger = open_ledger(settings.state, zero_of(first.recipe, len(net.classes)))
    for client in sorted({*settings.leave, *(left_out & ledger.members)}):
        ledger.leave(client)
    away = left_out.union(settings.leave)
    _collect(net, ledger, _stay(hellos, away))
    # Whoever connected meanwhile is late, not lost: the sum takes it as it takes the others.
    nodes = sorted(set(net.grid.get_node_ids()) - known)
    late = _greet(net, nodes, first.fingerprint)
    _collect(net, ledger, _stay(late, away))
    return ledger, {**hellos, **late}


def _secure(
    net: Exchange, hellos: Mapping[int, Hello], settings: RunSettings, section: Section
) -> Ledger:
    """The sum of those that have greeted, of which the server sees the total alone."""
    if settings.state is not None or settings.leave:
        raise InputError(
            "`state` and `leave` keep single clients' uploads, which a secure sum hides: leave "
            "them empty, or set aggregate.secure to false."
        )
    degree = whole_or_auto(section.get("neighbors"), "aggregate.neighbors")
    nodes = {hello.client: node for node, hello in hellos.items()}
    zero = zero_of(first_of(hellos).recipe, len(net.classes))
    total, present, size = secure_total(net, nodes, zero, degree)
    return Ledger(total, None, set(present), size)


def _greet(net: Exchange, nodes: Iterable[int], wanted: str) -> dict[int, Hello]:
    return greet(net, {node: RecordDict() for node in nodes}, FEATURES, wanted)


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


def _personalize(
    net: Exchange, answer: ServerAnswer, hellos: Mapping[int, Hello], ledger: Ledger
) -> dict[int, Told]:
    """Send the answer to all members that are there; what each client's heads achieve."""
    record = answer_record(answer)
    members = {n: record for n, hello in hellos.items() if hello.client in ledger.members}
    answers = net.ask(members, HEADS, parse_told)
    return {net.names[node]: counts for node, counts in answers}
