"""The parts of a host that Transom manages: each declares its desired state, reads, plans and records (`part`)."""
