"""Independent streams of random numbers, one for each purpose, round and client.

A stream is a function of its name alone. So what one client draws depends neither on how much the
others drew nor on where a run was stopped: a resumed run needs no generator's state.
"""

import zlib

import numpy as np
import torch


def stream(seed: int, purpose: str, *numbers: int) -> torch.Generator:
    """The generator of a purpose (``"train"``, say), and of a round and a client if given.

    Its seed is the first word of NumPy's ``SeedSequence`` of all of them, which keeps streams of
    neighboring numbers apart; with their count, since it does not tell a final 0 from nothing.
    """
    name = [seed, zlib.crc32(purpose.encode()), len(numbers), *numbers]
    words = np.random.SeedSequence(name)
    return torch.Generator().manual_seed(int(words.generate_state(1, np.uint64)[0] >> 1))
