"""The SSH side: connect, gather a HostState, carry out a plan."""
