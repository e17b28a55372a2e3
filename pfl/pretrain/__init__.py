"""A masked autoencoder, trained on public images without labels, whose encoder is a backbone."""
