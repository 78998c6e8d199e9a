// cri-pull SOCKET IMAGE...: asks the containerd at a Unix socket, over CRI as kubelet does, to pull each image.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func main() {
	connection, err := grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	code := 0
	for _, image := range os.Args[2:] {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		pulled, err := cri.NewImageServiceClient(connection).PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: image}})
		cancel()
		fmt.Println(image, pulled.GetImageRef(), err)
		if err != nil {
			code = 1
		}
	}
	os.Exit(code)
}
