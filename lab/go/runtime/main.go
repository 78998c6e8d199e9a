// runtime PIPE FILE: a Windows service that answers the kubelet over CRI, and starts nothing. A sandbox is ready once it is run, a
// container runs from its start until it is stopped. What there is stands in FILE, so that it outlives the service, as containers do.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows/svc"
	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
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
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, &pods{store: held})
	cri.RegisterImageServiceServer(server, &images{store: held})
	go server.Serve(listener)
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

// images has every image from when it was asked for.
type images struct {
	cri.UnimplementedImageServiceServer
	store *store
}

func (i *images) PullImage(_ context.Context, request *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	name := request.GetImage().GetImage()
	return &cri.PullImageResponse{ImageRef: name}, i.store.change(func() { i.store.Images[name] = true })
}

func (i *images) ImageStatus(_ context.Context, request *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	i.store.Lock()
	defer i.store.Unlock()
	name := request.GetImage().GetImage()
	if !i.store.Images[name] {
		return &cri.ImageStatusResponse{}, nil
	}
	return &cri.ImageStatusResponse{Image: image(name)}, nil
}

func (i *images) ListImages(context.Context, *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	i.store.Lock()
	defer i.store.Unlock()
	found := &cri.ListImagesResponse{}
	for name := range i.store.Images {
		found.Images = append(found.Images, image(name))
	}
	return found, nil
}

func (i *images) RemoveImage(_ context.Context, request *cri.RemoveImageRequest) (*cri.RemoveImageResponse, error) {
	return &cri.RemoveImageResponse{}, i.store.change(func() { delete(i.store.Images, request.GetImage().GetImage()) })
}

func (i *images) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	usage := []*cri.FilesystemUsage{{
		FsId:      &cri.FilesystemIdentifier{Mountpoint: `C:\`},
		UsedBytes: &cri.UInt64Value{Value: 1},
	}}
	return &cri.ImageFsInfoResponse{ImageFilesystems: usage, ContainerFilesystems: usage}, nil
}

func image(name string) *cri.Image {
	return &cri.Image{Id: name, RepoTags: []string{name}, RepoDigests: []string{name}, Size: 1, Spec: &cri.ImageSpec{Image: name}}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: runtime PIPE FILE")
		os.Exit(2)
	}
	if err := svc.Run("runtime", runtime{os.Args[1], os.Args[2]}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
