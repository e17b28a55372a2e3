"""Sweeps: what the experiments that DVC keeps say about one parameter."""
