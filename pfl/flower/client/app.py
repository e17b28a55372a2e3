"""The ClientApp: which message is answered by which function."""

from collections.abc import Callable

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from threadpoolctl import threadpool_limits

from pfl.flower.client.fedhip import SENT, features_hello, make_heads, site_moments
from pfl.flower.client.site import Site, site_of
from pfl.flower.messages.hello import hello_record
from pfl.flower.messages.moments import moments_record

app = ClientApp()


def _answer(
    message: Message, context: Context, work: Callable[[Site, RecordDict], RecordDict]
) -> Message:
    """Do the work with one thread of BLAS, as the stages do, and reply."""
    with threadpool_limits(1):
        return Message(work(site_of(context, message.content), message.content), reply_to=message)


@app.query("features")
def features(message: Message, context: Context) -> Message:
    """FedHiP: who this client is, and its features' recipe."""
    return _answer(message, context, lambda site, _: hello_record(features_hello(site)))


@app.train("moments")
def moments(message: Message, context: Context) -> Message:
    """FedHiP, phase 1."""
    return _answer(
        message, context, lambda site, _: RecordDict({SENT: moments_record(site_moments(site))})
    )


@app.evaluate("heads")
def heads(message: Message, context: Context) -> Message:
    """FedHiP, phase 3."""
    return _answer(message, context, make_heads)


# Without PyTorch and cryptography where they are not needed: their import takes seconds, and Flower
# starts a process for each message.


@app.query("advertise")
def advertise(message: Message, context: Context) -> Message:
    """Secure sum: public keys."""
    from pfl.flower.client.secure import advertise as step

    return _answer(message, context, lambda site, content: step(site, content, context.state))


@app.query("share")
def share(message: Message, context: Context) -> Message:
    """Secure sum: sealed shares of secrets."""
    from pfl.flower.client.secure import share as step

    return _answer(message, context, lambda site, content: step(site, content, context.state))


@app.train("mask")
def mask(message: Message, context: Context) -> Message:
    """Secure sum: moments under masks."""
    from pfl.flower.client.secure import mask as step

    return _answer(message, context, lambda site, content: step(site, content, context.state))


@app.query("reveal")
def reveal(message: Message, context: Context) -> Message:
    """Secure sum: the shares that take the masks away."""
    from pfl.flower.client.secure import reveal as step

    return _answer(message, context, lambda site, content: step(site, content, context.state))


@app.query("images")
def images(message: Message, context: Context) -> Message:
    """Trained methods: who this client is, and what its images are like."""
    from pfl.flower.client.rounds import images_hello

    return _answer(
        message, context, lambda site, content: hello_record(images_hello(site, content))
    )


@app.train("round")
def play(message: Message, context: Context) -> Message:
    """Trained methods: this client's part in a round."""
    _one_thread()
    from pfl.flower.client.rounds import play_part

    return _answer(message, context, lambda site, content: play_part(site, content, context.state))


@app.evaluate("own")
def own(message: Message, context: Context) -> Message:
    """Trained methods: accuracy on the client's own samples."""
    _one_thread()
    from pfl.flower.client.rounds import score_own

    return _answer(message, context, lambda site, content: score_own(site, content, context.state))


def _one_thread() -> None:
    """As the pipeline's workers: sums of floats then run in the same order."""
    import torch

    torch.set_num_threads(1)
