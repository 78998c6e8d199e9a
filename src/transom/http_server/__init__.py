"""The HTTP server of every open port: how many connections, for how long, and how many bytes of each."""
