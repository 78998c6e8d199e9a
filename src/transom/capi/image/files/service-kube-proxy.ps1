# kube-proxy as a service: kernel space, with the configuration of the cluster's own kube-proxy and the kubelet's identity.
$ErrorActionPreference = 'Stop'
$node = (Get-Content -Path 'C:\run\kubeadm\kubeadm-join-config.yaml' | Select-String -Pattern '^\s+name:\s*["'']?([A-Za-z0-9.-]+)' | Select-Object -First 1).Matches[0].Groups[1].Value
$arguments = @(
    '--windows-service'
    '--proxy-mode=kernelspace'
    '--kubeconfig=C:\etc\kubernetes\kubelet.conf'
    "--hostname-override=$node"
)
New-Service -Name 'kube-proxy' -BinaryPathName ('C:\k\kube-proxy.exe ' + ($arguments -join ' ')) -StartupType Automatic -DependsOn 'hns' | Out-Null
Start-Service -Name 'kube-proxy'
