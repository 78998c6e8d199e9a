"""The parts of a host that Transom manages: each says what it wishes for, asks, plans and records (`part`)."""
