package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// processes are pods whose containers are processes.
type processes struct {
	*pods
	streams streaming.Server
	lock    sync.Mutex
	running map[string]*process
}

type process struct {
	command *exec.Cmd
	ended   chan struct{}
}

func run(socket, file string) error {
	held, err := read(file)
	if err != nil {
		return err
	}
	made := &processes{pods: &pods{store: held}, running: map[string]*process{}}
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	config := streaming.DefaultConfig
	config.Addr = reserved.Addr().String()
	reserved.Close()
	if made.streams, err = streaming.NewServer(config, streams{made}); err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- made.streams.Start(true) }()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := serve(listener, made, held)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	select {
	case err = <-failed:
	case <-asked:
	}
	server.Stop()
	made.lock.Lock()
	defer made.lock.Unlock()
	for _, one := range made.running {
		one.signal(syscall.SIGKILL)
	}
	return err
}

func (p *processes) RuntimeConfig(context.Context, *cri.RuntimeConfigRequest) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS}}, nil
}

func (p *processes) StartContainer(ctx context.Context, request *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	id := request.ContainerId
	command, err := p.command(context.Background(), id, nil)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.log(id), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, err
	}
	command.Stdout, command.Stderr = &lines{file: log, stream: "stdout"}, &lines{file: log, stream: "stderr"}
	if err := command.Start(); err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	one := &process{command, make(chan struct{})}
	p.lock.Lock()
	p.running[id] = one
	p.lock.Unlock()
	answer, err := p.pods.StartContainer(ctx, request)
	go func() {
		command.Wait()
		log.Close()
		p.each(id, func(one *container) { one.ExitCode = int32(command.ProcessState.ExitCode()); one.end() })
		p.lock.Lock()
		delete(p.running, id)
		p.lock.Unlock()
		close(one.ended)
	}()
	return answer, err
}

func (p *processes) StopContainer(ctx context.Context, request *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	p.end(request.ContainerId, time.Duration(request.Timeout)*time.Second)
	return p.pods.StopContainer(ctx, request)
}

func (p *processes) StopPodSandbox(ctx context.Context, request *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	containers, err := p.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{PodSandboxId: request.PodSandboxId}})
	if err != nil {
		return nil, err
	}
	for _, one := range containers.Containers {
		p.end(one.Id, 0)
	}
	return p.pods.StopPodSandbox(ctx, request)
}

func (p *processes) end(id string, grace time.Duration) {
	p.lock.Lock()
	one := p.running[id]
	p.lock.Unlock()
	if one == nil {
		return
	}
	one.signal(syscall.SIGTERM)
	select {
	case <-one.ended:
	case <-time.After(grace):
		one.signal(syscall.SIGKILL)
		<-one.ended
	}
}

// signal reaches what the process started, too.
func (p *process) signal(what syscall.Signal) { syscall.Kill(-p.command.Process.Pid, what) }

// command is what a container runs; or another command, with its environment.
func (p *processes) command(ctx context.Context, id string, other []string) (*exec.Cmd, error) {
	p.store.Lock()
	defer p.store.Unlock()
	one, ok := p.store.Containers[id]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "no container %s", id)
	}
	words := append(append([]string{}, one.Config.GetCommand()...), one.Config.GetArgs()...)
	if other != nil {
		words = other
	}
	if len(words) == 0 {
		return nil, status.Error(codes.InvalidArgument, "there are no images here: the container names no command")
	}
	made := exec.CommandContext(ctx, words[0], words[1:]...)
	made.Dir = one.Config.GetWorkingDir()
	made.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, variable := range one.Config.GetEnvs() {
		made.Env = append(made.Env, variable.Key+"="+string(variable.Value))
	}
	made.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return made, nil
}

func (p *processes) ContainerStatus(ctx context.Context, request *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	answer, err := p.pods.ContainerStatus(ctx, request)
	if err == nil {
		answer.Status.LogPath = p.log(request.ContainerId)
	}
	return answer, err
}

// log is the path of a container's log; empty where the container has gone.
func (p *processes) log(id string) string {
	p.store.Lock()
	defer p.store.Unlock()
	one, ok := p.store.Containers[id]
	if !ok {
		return ""
	}
	return filepath.Join(p.store.Sandboxes[one.Sandbox].Config.GetLogDirectory(), one.Config.GetLogPath())
}

func (p *processes) ExecSync(ctx context.Context, request *cri.ExecSyncRequest) (*cri.ExecSyncResponse, error) {
	command, err := p.command(ctx, request.ContainerId, request.Cmd)
	if err != nil {
		return nil, err
	}
	output, err := command.Output()
	answer := &cri.ExecSyncResponse{Stdout: output}
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		answer.Stderr, answer.ExitCode = ended.Stderr, int32(ended.ExitCode())
		return answer, nil
	}
	return answer, err
}

func (p *processes) Exec(_ context.Context, request *cri.ExecRequest) (*cri.ExecResponse, error) {
	return p.streams.GetExec(request)
}

// streams is what the streaming server asks; it serves exec alone.
type streams struct{ *processes }

func (s streams) Exec(
	ctx context.Context, id string, words []string, in io.Reader, out, err io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize,
) error {
	command, failed := s.command(ctx, id, words)
	if failed != nil {
		return failed
	}
	command.Stdin, command.Stdout, command.Stderr = in, out, err
	return command.Run()
}

func (s streams) Attach(
	context.Context, string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize,
) error {
	return status.Error(codes.Unimplemented, "attach")
}

func (s streams) PortForward(context.Context, string, int32, io.ReadWriteCloser) error {
	return status.Error(codes.Unimplemented, "port forward")
}

// lines writes a container's log as kubelet reads it: a time, the stream, F for a whole line or P for a part of one, the text.
type lines struct {
	file   *os.File
	stream string
}

func (l *lines) Write(given []byte) (int, error) {
	for rest := given; len(rest) > 0; {
		line, tag := rest, "P"
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			line, tag = rest[:end], "F"
			rest = rest[end+1:]
		} else {
			rest = nil
		}
		if _, err := fmt.Fprintf(l.file, "%s %s %s %s\n", time.Now().Format(time.RFC3339Nano), l.stream, tag, line); err != nil {
			return 0, err
		}
	}
	return len(given), nil
}
