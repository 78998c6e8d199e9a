// runtime answers the kubelet over CRI. A sandbox is ready once it is run, a container runs from its start until it is stopped.
//
// On Windows it is a service, `runtime PIPE FILE`, and starts nothing: what there is stands in FILE, so that it outlives the service,
// as containers do. On Linux, `runtime SOCKET FILE`, a container is a process of its own in the runtime's file system and network.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// serve answers until the server is stopped.
func serve(listener net.Listener, runtime cri.RuntimeServiceServer, held *store) *grpc.Server {
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, runtime)
	cri.RegisterImageServiceServer(server, &images{store: held})
	go server.Serve(listener)
	return server
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
		fmt.Fprintln(os.Stderr, "usage: runtime PIPE|SOCKET FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
