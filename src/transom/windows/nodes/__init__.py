"""Windows instances as nodes of a cluster: instances, certificates, version skew, rollouts."""
