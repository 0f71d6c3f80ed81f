"""Many seeds and many settings of algorithms on problems, and their results."""
