"""The API side: the one package that imports the client library."""
