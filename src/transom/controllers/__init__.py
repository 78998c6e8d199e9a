"""Load, decide, act, report: what the commands and the operator share."""
