"""Payloads: the files, directories and services of a Windows worker, as data. Pure."""
