"""Load, decide, act, report: the controllers of the operator."""
