"""Files and readiness endpoints, fetched through the proxy."""
