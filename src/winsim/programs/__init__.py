"""The simulated programs of `C:\\Windows\\System32`."""
