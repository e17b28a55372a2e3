"""The stages of `dvc.yaml`: each module is one command that turns artifacts into artifacts."""
