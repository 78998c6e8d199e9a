"""Checks of inputs, templates and image files for Windows workers, and the upstream facts behind them."""
