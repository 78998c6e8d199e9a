"""The image that Windows workers boot from: a Packer template and its scripts."""
