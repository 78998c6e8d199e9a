"""Cluster API: what a cluster's machines get of the egress settings, and what a Windows worker is made of."""
