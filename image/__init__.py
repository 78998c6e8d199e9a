"""The operator's image, made without a container engine: Debian's packages and PyPI's wheels as their locks have them."""
