"""Shape and type annotations of the library are checked while the tests run."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
from jaxtyping import install_import_hook

# Installed for the whole session on purpose: the hook stays until the process ends.
install_import_hook("pfl", "beartype.beartype")

# No deadline: the machines that run the tests are often busy, and a slow example is not a fault.
hypothesis.settings.register_profile("pfl", deadline=None)
hypothesis.settings.load_profile("pfl")
