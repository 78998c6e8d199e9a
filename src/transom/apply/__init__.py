"""Hosts by the dozen, for the commands and the operator: a target, its pass, the rollout, the report."""
