"""An SSH server that behaves as the one of Windows (OpenSSH for Windows 9.5), before a machine of the lab.

It is a process of its own, so that its CPU time is apart from the client's, and so that it can be killed.
"""
