# flanneld as a service; its network configuration is that of the cluster's ConfigMap kube-flannel-cfg, put at C:\etc\kube-flannel.
$ErrorActionPreference = 'Stop'
$node = (Get-Content -Path 'C:\run\kubeadm\kubeadm-join-config.yaml' | Select-String -Pattern '^\s+name:\s*["'']?([A-Za-z0-9.-]+)' | Select-Object -First 1).Matches[0].Groups[1].Value
[Environment]::SetEnvironmentVariable('NODE_NAME', $node, 'Machine')
& "$env:SystemRoot\System32\sc.exe" create flanneld binPath= 'C:\k\flanneld.exe --kube-subnet-mgr --kubeconfig-file=C:\etc\kubernetes\kubelet.conf' start= auto depend= hns
Start-Service -Name 'flanneld'
