module transom.dev/lab/scanner

go 1.24
