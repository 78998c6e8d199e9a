"""SSH connections to Windows hosts."""
