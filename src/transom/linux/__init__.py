"""A Linux node: the egress settings in the forms that systemd and a POSIX shell read."""
