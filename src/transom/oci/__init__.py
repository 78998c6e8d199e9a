"""Container images, read and written without an engine."""
