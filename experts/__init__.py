"""Who demonstrates."""
