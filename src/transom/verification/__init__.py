"""`transom verify cluster`: end-to-end checks of Windows nodes."""
