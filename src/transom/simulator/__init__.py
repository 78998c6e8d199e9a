"""A Windows host in this process, behind a real SSH server: for `transom demo`, scale and injected faults."""
