"""The compiled code of learners with features: sums in the order of the episodes, and solves."""
