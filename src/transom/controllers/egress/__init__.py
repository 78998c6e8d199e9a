"""The settings' own objects."""
