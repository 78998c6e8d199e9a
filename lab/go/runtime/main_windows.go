package main

import (
	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows/svc"
)

type runtime struct{ pipe, file string }

// Execute answers the service control manager until it asks for a stop.
func (r runtime) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	held, err := read(r.file)
	if err != nil {
		return false, 1
	}
	listener, err := winio.ListenPipe(r.pipe, nil)
	if err != nil {
		return false, 2
	}
	server := serve(listener, &pods{store: held}, held)
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for request := range requests {
		switch request.Cmd {
		case svc.Interrogate:
			status <- request.CurrentStatus
		case svc.Stop, svc.Shutdown:
			status <- svc.Status{State: svc.StopPending}
			server.Stop()
			return false, 0
		}
	}
	return false, 0
}

func run(pipe, file string) error { return svc.Run("runtime", runtime{pipe, file}) }
