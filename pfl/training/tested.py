"""Whose model a test is of: the one that a client uses from a round on, or has just trained.

A round ends with an average. Most papers test each client's model after it, with what the client
downloads next; some, and FedRep's released code [arXiv 2102.07078], test the model that the client
has trained and not yet sent. Where clients differ, the second is better at home: the average of
other clients' weights has not bent it yet.
"""

from collections.abc import Sequence

from pfl.training.problem import Problem
from pfl.training.rounds import ClientRound, ClientUpdate, Federation, places
from pfl.training.split import merge


def trained_places(
    problem: Problem, federation: Federation, updates: Sequence[ClientUpdate]
) -> list[ClientRound]:
    """The clients of these updates of a round that began with ``federation``, before the average.

    To each of them the download is what it has itself sent, so its model is the one that it has
    trained. Of a method that shares nothing there are none: the average changes no model.
    """
    trained = []
    for one in updates:
        number, sent = one.member.last, one.upload
        if sent:
            shared = {name: ~mask for name, mask in problem.split(number).items()}
            own = merge(federation.shared, sent, shared)
            trained.append(ClientRound(one.client, number, own, one.member))
    return trained


def places_after(
    federation: Federation, clients: Sequence[int], trained: Sequence[ClientRound] = ()
) -> list[ClientRound]:
    """The clients as they are tested after a round: ``trained``, or else with the download."""
    own = {place.client: place for place in trained}
    return [own.get(one.client, one) for one in places(federation, clients, federation.round)]
