# The pause image is in the image: the first pod needs no registry for it.
. "$PSScriptRoot\common.ps1"
if ($env:BUILD_HTTPS_PROXY -ne '') {
    # of this process alone: nothing of it stays in the image
    $env:HTTPS_PROXY = $env:BUILD_HTTPS_PROXY
    $env:HTTP_PROXY = $env:BUILD_HTTP_PROXY
    $env:NO_PROXY = $env:BUILD_NO_PROXY
}
$ctr = "$env:ProgramFiles\containerd\ctr.exe"
$archive = 'C:\k\image\downloads\pause.tar'
if (Test-Path -Path $archive) {
    Invoke-Checked -Program $ctr -Arguments @('--namespace', 'k8s.io', 'images', 'import', $archive)
}
else {
    Invoke-Checked -Program $ctr -Arguments @('--namespace', 'k8s.io', 'images', 'pull', '--local', $env:PAUSE_IMAGE)
}
