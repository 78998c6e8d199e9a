# The image contains the pause image, so that the first pod requires no registry, and other requested images.
. "$PSScriptRoot\common.ps1"
$ctr = "$env:ProgramFiles\containerd\ctr.exe"
$archive = 'C:\k\image\downloads\pause.tar'
if (Test-Path -Path $archive) {
    Invoke-Checked -Program $ctr -Arguments @('--namespace', 'k8s.io', 'images', 'import', $archive)
}
else {
    Invoke-Checked -Program $ctr -Arguments @('--namespace', 'k8s.io', 'images', 'pull', '--local', $env:PAUSE_IMAGE)
}
foreach ($name in "$env:ADDITIONAL_REGISTRY_IMAGES_LIST".Split(',') | Where-Object { $_ -ne '' }) {
    Invoke-Checked -Program $ctr -Arguments @('--namespace', 'k8s.io', 'images', 'pull', '--local', $name)
}
