"""What uploads give away: the attacks, their score against the truth, and the report."""
