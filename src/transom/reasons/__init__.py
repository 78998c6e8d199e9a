"""Every reason of a condition or an event, and every kind of error of a host: what it means, and what to do. Pure data."""
