"""A WindowsInstance as the controllers know it: a view at one moment, its status, its finalizers."""
