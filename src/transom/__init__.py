"""Transom: egress proxy settings and trusted CAs for clusters with Windows worker nodes."""

__version__ = "0.1.0"
