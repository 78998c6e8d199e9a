"""The Windows registry as values: names without case, `.reg` text, the answers of `reg query`."""
