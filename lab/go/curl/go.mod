module lab/curl

go 1.26.0
