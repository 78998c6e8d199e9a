# Installs the CNI plugins of Windows (win-overlay, win-bridge); Calico and Flannel bring their own.
. "$PSScriptRoot\common.ps1"
Get-CheckedFile -Uri $env:CNI_PLUGINS_URL -Hash $env:CNI_PLUGINS_SHA256 -Published "$env:CNI_PLUGINS_URL.sha256" -Path 'C:\k\image\cni.tgz'
Invoke-Checked -Program "$env:SystemRoot\System32\tar.exe" -Arguments @('-xf', 'C:\k\image\cni.tgz', '-C', 'C:\opt\cni\bin')
