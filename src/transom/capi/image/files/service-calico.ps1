# Calico for Windows as services, by the installer that its own package brings (C:\CalicoWindows).
$ErrorActionPreference = 'Stop'
if (-not (Test-Path -Path 'C:\CalicoWindows\install-calico.ps1')) {
    throw 'the image has no C:\CalicoWindows: build it with transom capi image --daemons services --cni calico'
}
& 'C:\CalicoWindows\install-calico.ps1'
& 'C:\CalicoWindows\start-calico.ps1'
