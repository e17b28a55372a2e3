"""Flags of what several stages read: artifacts, and folders of reports."""

from pathlib import Path
from typing import Annotated

from typer import Option

IndexFile = Annotated[Path, Option(help="The sample index.")]
ClientsFile = Annotated[Path, Option(help="Who holds which samples.")]
FeaturesFile = Annotated[Path, Option(help="The fixed-point features.")]
UploadsFile = Annotated[Path, Option(help="What every client sent.")]
ServerFile = Annotated[Path, Option(help="What the server sent back, with the global head.")]
HeadsFile = Annotated[Path, Option(help="The clients' local and personalized heads.")]
FedhipFolder = Annotated[Path, Option(help="Folder of FedHiP's report.")]
RunsFolder = Annotated[Path, Option(help="Folder with <method>/seed-<seed>/ of each run.")]
HeadRunsFolder = Annotated[Path, Option(help="The same of heads by gradients.")]
