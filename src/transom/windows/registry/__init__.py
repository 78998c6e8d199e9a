"""The Windows registry and the `.reg` format. Pure."""
