"""The board: proposals, decisions on them, and what they deploy."""
