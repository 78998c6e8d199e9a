package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"os"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type sandbox struct {
	Config  *cri.PodSandboxConfig
	Handler string
	State   cri.PodSandboxState
	Created int64
}

type container struct {
	Sandbox                    string
	Config                     *cri.ContainerConfig
	State                      cri.ContainerState
	Created, Started, Finished int64
	ExitCode                   int32
}

// store is everything that there is, by id; images by name.
type store struct {
	sync.Mutex `json:"-"`
	file       string
	Sandboxes  map[string]*sandbox
	Containers map[string]*container
	Images     map[string]bool
}

func read(file string) (*store, error) {
	made := &store{file: file, Sandboxes: map[string]*sandbox{}, Containers: map[string]*container{}, Images: map[string]bool{}}
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return made, nil
	}
	if err != nil {
		return nil, err
	}
	return made, json.Unmarshal(text, made)
}

// change does something to the store, and writes it down.
func (s *store) change(what func()) error {
	s.Lock()
	defer s.Unlock()
	what()
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	// a service that is ended while it writes leaves what was written before
	if err := os.WriteFile(s.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file)
}

// end stops a container; one that has ended stays as it is.
func (c *container) end() {
	if c.State != cri.ContainerState_CONTAINER_EXITED {
		c.State, c.Finished = cri.ContainerState_CONTAINER_EXITED, now()
	}
}

func now() int64 { return time.Now().UnixNano() }

func identity() string {
	made := make([]byte, 32)
	rand.Read(made)
	return hex.EncodeToString(made)
}
