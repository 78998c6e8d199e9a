"""What a new Windows machine runs at its first boot."""
