package main

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// pods answers for sandboxes and containers; what it does not know is Unimplemented.
type pods struct {
	cri.UnimplementedRuntimeServiceServer
	store *store
}

func (p *pods) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "lab", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1"}, nil
}

func (p *pods) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	conditions := []*cri.RuntimeCondition{{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Status: true}}
	return &cri.StatusResponse{
		Status:          &cri.RuntimeStatus{Conditions: conditions},
		RuntimeHandlers: []*cri.RuntimeHandler{{Name: "", Features: &cri.RuntimeHandlerFeatures{}}},
	}, nil
}

func (p *pods) UpdateRuntimeConfig(context.Context, *cri.UpdateRuntimeConfigRequest) (*cri.UpdateRuntimeConfigResponse, error) {
	return &cri.UpdateRuntimeConfigResponse{}, nil
}

func (p *pods) RunPodSandbox(_ context.Context, request *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	id := identity()
	return &cri.RunPodSandboxResponse{PodSandboxId: id}, p.store.change(func() {
		p.store.Sandboxes[id] = &sandbox{request.Config, request.RuntimeHandler, cri.PodSandboxState_SANDBOX_READY, now()}
	})
}

func (p *pods) StopPodSandbox(_ context.Context, request *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	return &cri.StopPodSandboxResponse{}, p.store.change(func() {
		if found, ok := p.store.Sandboxes[request.PodSandboxId]; ok {
			found.State = cri.PodSandboxState_SANDBOX_NOTREADY
		}
		for _, one := range p.store.Containers {
			if one.Sandbox == request.PodSandboxId {
				one.end()
			}
		}
	})
}

func (p *pods) RemovePodSandbox(_ context.Context, request *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	return &cri.RemovePodSandboxResponse{}, p.store.change(func() {
		delete(p.store.Sandboxes, request.PodSandboxId)
		for id, one := range p.store.Containers {
			if one.Sandbox == request.PodSandboxId {
				delete(p.store.Containers, id)
			}
		}
	})
}

func (p *pods) PodSandboxStatus(_ context.Context, request *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	p.store.Lock()
	defer p.store.Unlock()
	found, ok := p.store.Sandboxes[request.PodSandboxId]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "no sandbox %s", request.PodSandboxId)
	}
	namespaces := &cri.Namespace{Options: found.Config.GetLinux().GetSecurityContext().GetNamespaceOptions()}
	return &cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{
		Id:             request.PodSandboxId,
		Metadata:       found.Config.GetMetadata(),
		State:          found.State,
		CreatedAt:      found.Created,
		Network:        &cri.PodSandboxNetworkStatus{Ip: "10.132.0.10"},
		Labels:         found.Config.GetLabels(),
		Annotations:    found.Config.GetAnnotations(),
		RuntimeHandler: found.Handler,
		Linux:          &cri.LinuxPodSandboxStatus{Namespaces: namespaces},
	}}, nil
}

func (p *pods) ListPodSandbox(_ context.Context, request *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	p.store.Lock()
	defer p.store.Unlock()
	answer, wanted := &cri.ListPodSandboxResponse{}, request.GetFilter()
	for id, one := range p.store.Sandboxes {
		right := wanted.GetState() == nil || wanted.GetState().GetState() == one.State
		if right && is(id, wanted.GetId()) && labelled(one.Config.GetLabels(), wanted.GetLabelSelector()) {
			answer.Items = append(answer.Items, &cri.PodSandbox{
				Id:             id,
				Metadata:       one.Config.GetMetadata(),
				State:          one.State,
				CreatedAt:      one.Created,
				Labels:         one.Config.GetLabels(),
				Annotations:    one.Config.GetAnnotations(),
				RuntimeHandler: one.Handler,
			})
		}
	}
	return answer, nil
}

func (p *pods) CreateContainer(_ context.Context, request *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	id := identity()
	return &cri.CreateContainerResponse{ContainerId: id}, p.store.change(func() {
		p.store.Containers[id] = &container{Sandbox: request.PodSandboxId, Config: request.Config, Created: now()}
	})
}

func (p *pods) StartContainer(_ context.Context, request *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	return &cri.StartContainerResponse{}, p.each(request.ContainerId, func(one *container) {
		one.State, one.Started = cri.ContainerState_CONTAINER_RUNNING, now()
	})
}

func (p *pods) StopContainer(_ context.Context, request *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	return &cri.StopContainerResponse{}, p.each(request.ContainerId, (*container).end)
}

func (p *pods) RemoveContainer(_ context.Context, request *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	return &cri.RemoveContainerResponse{}, p.store.change(func() { delete(p.store.Containers, request.ContainerId) })
}

func (p *pods) ListContainers(_ context.Context, request *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	p.store.Lock()
	defer p.store.Unlock()
	answer, wanted := &cri.ListContainersResponse{}, request.GetFilter()
	for id, one := range p.store.Containers {
		right := wanted.GetState() == nil || wanted.GetState().GetState() == one.State
		right = right && is(id, wanted.GetId()) && is(one.Sandbox, wanted.GetPodSandboxId())
		if right && labelled(one.Config.GetLabels(), wanted.GetLabelSelector()) {
			answer.Containers = append(answer.Containers, &cri.Container{
				Id:           id,
				PodSandboxId: one.Sandbox,
				Metadata:     one.Config.GetMetadata(),
				Image:        one.Config.GetImage(),
				ImageRef:     one.Config.GetImage().GetImage(),
				ImageId:      one.Config.GetImage().GetImage(),
				State:        one.State,
				CreatedAt:    one.Created,
				Labels:       one.Config.GetLabels(),
				Annotations:  one.Config.GetAnnotations(),
			})
		}
	}
	return answer, nil
}

func (p *pods) ContainerStatus(_ context.Context, request *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	p.store.Lock()
	defer p.store.Unlock()
	one, ok := p.store.Containers[request.ContainerId]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "no container %s", request.ContainerId)
	}
	return &cri.ContainerStatusResponse{Status: &cri.ContainerStatus{
		Id:          request.ContainerId,
		Metadata:    one.Config.GetMetadata(),
		State:       one.State,
		CreatedAt:   one.Created,
		StartedAt:   one.Started,
		FinishedAt:  one.Finished,
		ExitCode:    one.ExitCode,
		Image:       one.Config.GetImage(),
		ImageRef:    one.Config.GetImage().GetImage(),
		ImageId:     one.Config.GetImage().GetImage(),
		Labels:      one.Config.GetLabels(),
		Annotations: one.Config.GetAnnotations(),
		Mounts:      one.Config.GetMounts(),
		LogPath:     one.Config.GetLogPath(),
	}}, nil
}

func (p *pods) ListContainerStats(context.Context, *cri.ListContainerStatsRequest) (*cri.ListContainerStatsResponse, error) {
	return &cri.ListContainerStatsResponse{}, nil
}

func (p *pods) ListPodSandboxStats(context.Context, *cri.ListPodSandboxStatsRequest) (*cri.ListPodSandboxStatsResponse, error) {
	return &cri.ListPodSandboxStatsResponse{}, nil
}

// each does something to a container, if there is one of that id.
func (p *pods) each(id string, what func(*container)) error {
	found := false
	err := p.store.change(func() {
		one, ok := p.store.Containers[id]
		if found = ok; ok {
			what(one)
		}
	})
	if err == nil && !found {
		return status.Errorf(codes.NotFound, "no container %s", id)
	}
	return err
}

func is(id, wanted string) bool { return wanted == "" || wanted == id }

func labelled(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if labels[name] != value {
			return false
		}
	}
	return true
}
