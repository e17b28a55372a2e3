"""What an artifact is, what made it, and what is in it."""
