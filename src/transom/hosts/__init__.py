"""The SSH side: connect to a Windows host, gather a HostState, carry out a plan."""
