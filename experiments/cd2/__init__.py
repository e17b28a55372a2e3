"""CD2-pFed read in other ways than the package has it, and how their runs are made."""
