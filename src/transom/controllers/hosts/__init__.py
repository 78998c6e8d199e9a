"""Windows hosts: proxy, trust and their removal."""
