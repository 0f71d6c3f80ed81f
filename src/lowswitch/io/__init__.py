"""Files: written whole or not at all, checked when read, and kept work."""
