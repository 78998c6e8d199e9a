"""The documentation site, not shipped: pages of the repository that lie outside `docs`, and the pictures."""
