"""The parts of a host that Transom manages: environment, trust, WinHTTP, services, files."""
