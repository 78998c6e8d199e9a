"""The scripts that run on a host: their text, how it is put together, what they answer."""
