"""Windows hosts: proxy, trust and the way back."""
