"""The egress settings: parse, validate, redact; NO_PROXY; trust bundles. Pure."""
