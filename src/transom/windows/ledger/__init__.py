"""The ledger on a host: what is Transom's there, and what it replaced."""
