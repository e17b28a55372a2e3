"""Whether the cached artifacts are whole, current, and consistent with one another."""
