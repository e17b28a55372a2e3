"""The ClientApp: which message is answered by which function."""

from functools import partial
from importlib import import_module

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from threadpoolctl import threadpool_limits

from pfl.flower.client.site import site_of
from pfl.flower.messages import kinds

# By message: the module beside this one, and its function (Site, content, state) → content. A
# module is imported when it is needed, since PyTorch and cryptography take seconds, and Flower
# starts a process for each message.
ANSWERS = {
    kinds.FEATURES: ("fedhip", "greet"),
    kinds.MOMENTS: ("fedhip", "send_moments"),
    kinds.HEADS: ("fedhip", "make_heads"),
    kinds.ADVERTISE: ("secure", "advertise"),
    kinds.SHARE: ("secure", "share"),
    kinds.MASK: ("secure", "mask"),
    kinds.REVEAL: ("secure", "reveal"),
    kinds.IMAGES: ("rounds", "greet"),
    kinds.ROUND: ("rounds", "play_part"),
    kinds.OWN: ("rounds", "score_own"),
}

app = ClientApp()


def _answer(module: str, function: str, message: Message, context: Context) -> Message:
    """Do the work with one thread of BLAS, as the stages do, and reply."""
    work = getattr(import_module(f"pfl.flower.client.{module}"), function)
    with threadpool_limits(1):
        site = site_of(context, message.content)
        return Message(work(site, message.content, context.state), reply_to=message)


for kind, answer in ANSWERS.items():
    category, action = kind.split(".")
    getattr(app, category)(action)(partial(_answer, *answer))
