"""A ClientApp whose client 2 takes its whole SuperNode down when it is asked for its moments."""

import os
import signal

import psutil
from flwr.clientapp import ClientApp

from pfl.flower.client.app import app as real


class Dying(ClientApp):
    """The real app, but for one message to one client."""

    def __call__(self, message, context):
        if context.node_config["client"] == 2 and message.metadata.message_type == "train.moments":
            for process in psutil.Process().parents():
                if any("flower-supernode" in word for word in process.cmdline()):
                    process.kill()
            os.kill(os.getpid(), signal.SIGKILL)
        return real(message, context)


app = Dying()
