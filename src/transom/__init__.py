"""Transom: egress proxy settings and trusted CAs for clusters with Windows worker nodes."""
