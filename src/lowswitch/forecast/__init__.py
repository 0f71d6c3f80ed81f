"""What to run for N deployments, and what to expect of it: problems are drawn, and tried on."""

from lowswitch.forecast.forecasts import Forecast, Plan, plan

__all__ = ["Forecast", "Plan", "plan"]
