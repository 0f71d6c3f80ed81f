"""An algorithm is estimator x bonus x schedule: its parts, its schedules, the published recipes,
and their text form.
"""
