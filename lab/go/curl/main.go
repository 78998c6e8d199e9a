// curl.exe for Wine, which has none: `curl -q -K FILE` fetches what the file says, through the proxy that it names, and trusts
// what the machine's certificate stores hold. Exit codes are those of libcurl-errors(3), the file is as curl(1) has it.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 4 || os.Args[1] != "-q" || os.Args[2] != "-K" {
		os.Exit(2)
	}
	options, err := read(os.Args[3])
	if err != nil {
		os.Exit(26)
	}
	code, status, connect := fetch(options)
	answer := strings.NewReplacer("%{http_code}", three(status), "%{http_connect}", three(connect))
	fmt.Print(answer.Replace(options["write-out"]))
	os.Exit(code)
}

func three(status int) string { return fmt.Sprintf("%03d", status) }

func read(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	options := map[string]string{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), " = ")
		value = strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`)
		options[name] = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(value)
	}
	return options, lines.Err()
}

func fetch(options map[string]string) (code, status, connect int) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		os.Setenv(name, options["proxy"])
	}
	os.Setenv("NO_PROXY", options["noproxy"])
	seconds, err := strconv.Atoi(options["max-time"])
	if err != nil {
		return 2, 0, 0
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
			connect = answer.StatusCode
			return nil
		},
	}
	client := &http.Client{
		Transport:     transport,
		Timeout:       time.Duration(seconds) * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Get(options["url"])
	if err != nil {
		return exitCode(err, connect), 0, connect
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	if _, fail := options["fail"]; fail && answer.StatusCode >= 400 {
		return 22, answer.StatusCode, connect
	}
	return 0, answer.StatusCode, connect
}

func exitCode(err error, connect int) int {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		name         *net.DNSError
		operation    *net.OpError
		late         interface{ Timeout() bool }
	)
	proxied := errors.As(err, &operation) && operation.Op == "proxyconnect"
	switch {
	case connect >= 300:
		return 56
	case errors.As(err, &verification):
		return 60
	case errors.As(err, &record), strings.Contains(err.Error(), "tls: "):
		return 35
	case errors.As(err, &name) && proxied:
		return 5
	case errors.As(err, &name):
		return 6
	case errors.As(err, &late) && late.Timeout():
		return 28
	case operation != nil && (proxied || operation.Op == "dial"):
		return 7
	}
	return 56
}
