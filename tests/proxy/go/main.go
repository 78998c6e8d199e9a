// Command proxyurl reads JSON lines {"url": …} and says of each what Go makes of it: net/url.ParseRequestURI, and
// golang.org/x/net/http/httpproxy, which is what kubelet, containerd and most programs in a cluster read proxy URLs with.
// Of lines {"item": …} it says whether net.ParseIP and net.ParseCIDR take them.
package main

import (
	"bufio"
	"encoding/json"
	"net"
	"net/url"
	"os"

	"golang.org/x/net/http/httpproxy"
)

type parts struct {
	Scheme   string  `json:"scheme"`
	Host     []byte  `json:"host"`
	Port     string  `json:"port"`
	Username []byte  `json:"username"`
	Password *[]byte `json:"password"`
	HasUser  bool    `json:"has_user"`
}

type answer struct {
	Parsed *parts `json:"parsed"`
	Proxy  *parts `json:"proxy"`
}

func taken(u *url.URL) *parts {
	p := &parts{Scheme: u.Scheme, Host: []byte(u.Hostname()), Port: u.Port(), HasUser: u.User != nil}
	if u.User != nil {
		p.Username = []byte(u.User.Username())
		if password, set := u.User.Password(); set {
			bytes := []byte(password)
			p.Password = &bytes
		}
	}
	return p
}

func main() {
	target, _ := url.Parse("http://registry.example/v2/")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var line struct {
			URL  string  `json:"url"`
			Item *string `json:"item"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			panic(err)
		}
		var a answer
		if line.Item != nil {
			_, _, err := net.ParseCIDR(*line.Item)
			if err := out.Encode(map[string]bool{"ip": net.ParseIP(*line.Item) != nil, "cidr": err == nil}); err != nil {
				panic(err)
			}
			continue
		}
		if u, err := url.ParseRequestURI(line.URL); err == nil {
			a.Parsed = taken(u)
		}
		config := httpproxy.Config{HTTPProxy: line.URL}
		if u, err := config.ProxyFunc()(target); err == nil && u != nil {
			a.Proxy = taken(u)
		}
		if err := out.Encode(a); err != nil {
			panic(err)
		}
	}
}
