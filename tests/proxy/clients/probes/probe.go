// Probe fetches one URL with Go's net/http and its proxy settings from the environment.
package main

import (
	"net/http"
	"os"
	"time"
)

func main() {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(os.Args[1])
	if err != nil {
		os.Exit(1)
	}
	response.Body.Close()
}
