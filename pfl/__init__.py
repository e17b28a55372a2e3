"""Personalized federated learning: FedHiP and CD2-pFed as a cached, inspectable pipeline."""
