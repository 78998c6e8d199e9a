"""Helpers without a domain: escaping, timestamps, check results, clean-up."""
