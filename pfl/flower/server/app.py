"""The ServerApp: one run of one method, as the run config says."""

import logging
import sys

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from threadpoolctl import threadpool_limits

from pfl.flower.parameters import FEDHIP, read_parameters, run_settings

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the method over the connected clients and write the report."""
    _log_to_stderr()
    settings = run_settings(context.run_config)
    sections = read_parameters(settings.params)
    with threadpool_limits(1):
        if settings.method == FEDHIP:
            from pfl.flower.server.fedhip import run_fedhip

            run_fedhip(grid, settings, sections)
            return
        # PyTorch takes seconds to import, which FedHiP's server need not wait for.
        from pfl.flower.server.rounds import run_rounds

        run_rounds(grid, settings, sections)


def _log_to_stderr() -> None:
    """Have what the library tells go to the run's log."""
    logger = logging.getLogger("pfl")
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler(sys.stderr))
        logger.setLevel(logging.INFO)
