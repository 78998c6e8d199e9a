"""The state of a Windows host as a value. Pure."""
