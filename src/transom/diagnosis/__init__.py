"""`transom status` and `transom doctor`: from objects to rows and findings. Pure."""
