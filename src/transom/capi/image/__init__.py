"""The image that Windows workers start from: a Packer template, its scripts and a manifest."""
