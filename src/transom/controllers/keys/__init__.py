"""SSH keys over time: rotation, keys that hosts still need, keys that may go."""
