"""Where WindowsInstances come from."""
