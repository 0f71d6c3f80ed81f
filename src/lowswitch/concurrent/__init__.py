"""Many machines, one policy a round."""
