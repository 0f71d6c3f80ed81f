"""Problems: a finite MDP with its exact values, those of the literature by name, and the bridge to
Gymnasium.
"""
