"""The SSH side: connect to a Windows host, gather an ObservedState, carry out a plan."""
