// recorder NAME FILE: a Windows service that records each of its starts, with the environment as it then sees it, and each
// of its stops, as lines of JSON in FILE. NAME is its service name; it makes the command lines of two recorders differ. With
// a file FILE.slow, which contains a number of seconds, it stays pending that long as it stops, with a checkpoint each second.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/windows/svc"
)

// line is one event of the service's life. Number counts the events of that kind in the file, from 1.
type line struct {
	Event       string   `json:"event"`
	Number      int      `json:"number"`
	Time        string   `json:"time"`
	Environment []string `json:"environment,omitempty"`
}

type recorder struct{ file string }

func (r recorder) record(event string, environment []string) error {
	written, err := os.ReadFile(r.file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	number := 1
	for decoder := json.NewDecoder(bytes.NewReader(written)); ; {
		var earlier line
		if decoder.Decode(&earlier) != nil {
			break
		}
		if earlier.Event == event {
			number++
		}
	}
	text, err := json.Marshal(line{event, number, time.Now().UTC().Format(time.RFC3339Nano), environment})
	if err != nil {
		return err
	}
	out, err := os.OpenFile(r.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = out.Write(append(text, '\n'))
	return err
}

// slow returns for how many seconds the service stays pending as it stops.
func (r recorder) slow() int {
	text, err := os.ReadFile(r.file + ".slow")
	if err != nil {
		return 0
	}
	seconds, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return seconds
}

// Execute answers the service control manager until it asks for a stop.
func (r recorder) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	if err := r.record("start", os.Environ()); err != nil {
		return false, 1
	}
	accepted := svc.AcceptStop | svc.AcceptShutdown
	status <- svc.Status{State: svc.Running, Accepts: accepted}
	for request := range requests {
		if request.Cmd == svc.Interrogate {
			status <- request.CurrentStatus
			continue
		}
		// nothing else is accepted but what ends it
		status <- svc.Status{State: svc.StopPending}
		for checkpoint := 1; checkpoint <= r.slow(); checkpoint++ {
			status <- svc.Status{State: svc.StopPending, CheckPoint: uint32(checkpoint), WaitHint: 2000}
			time.Sleep(time.Second)
		}
		if err := r.record("stop", nil); err != nil {
			return false, 1
		}
		break
	}
	return false, 0
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: recorder NAME FILE")
		os.Exit(2)
	}
	if err := svc.Run(os.Args[1], recorder{os.Args[2]}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
