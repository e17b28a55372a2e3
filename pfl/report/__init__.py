"""The report: one page that needs nothing but itself, made from what stages left to read."""
