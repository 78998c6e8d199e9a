"""Payloads that are shipped: what `transom payload build` starts from where no other is named."""
