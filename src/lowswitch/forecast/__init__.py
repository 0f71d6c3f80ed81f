"""Plan a run: draw problems, try algorithms on them, and say what to run and what to expect."""

from lowswitch.forecast.forecasts import Forecast, Plan, plan

__all__ = ["Forecast", "Plan", "plan"]
