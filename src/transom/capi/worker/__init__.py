"""The objects and files of Windows workers."""
