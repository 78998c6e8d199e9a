"""A WindowsInstance as the controllers know it: its view, status and finalizers."""
