"""One module per command of `transom`."""
