"""WindowsInstances: their fields, identities, certificates and keys. Pure."""
