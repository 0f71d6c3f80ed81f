"""The board: proposals, decisions on them, and the resulting deployments."""
