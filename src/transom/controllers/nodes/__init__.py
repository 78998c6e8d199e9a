"""Windows hosts that Transom makes nodes, and keeps."""
