"""Apply settings to many hosts, for the commands and the operator: a target, its pass, the rollout, the report."""
