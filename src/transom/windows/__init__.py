"""A Windows host as a value, the `.reg` format, the ledger, and the plan between two states. Pure."""
