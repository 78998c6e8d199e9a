"""The way to a host: connection, host keys, transport, and Transom's directory there."""
