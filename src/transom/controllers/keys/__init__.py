"""SSH keys: rotation, previous keys that hosts still need, and their deletion."""
