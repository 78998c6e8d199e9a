"""The payloads that Transom ships."""
