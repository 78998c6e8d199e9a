"""What a host needs to join a cluster: token, names, addresses, cluster facts."""
