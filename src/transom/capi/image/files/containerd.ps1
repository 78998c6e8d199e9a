# Installs containerd as a service, with the pause image of this build.
. "$PSScriptRoot\common.ps1"
$directory = "$env:ProgramFiles\containerd"
Get-CheckedFile -Uri $env:CONTAINERD_URL -Hash $env:CONTAINERD_SHA256 -Published "$env:CONTAINERD_URL.sha256sum" -Path 'C:\k\image\containerd.tar.gz'
New-Item -ItemType Directory -Force -Path $directory, 'C:\opt\cni\bin', 'C:\etc\cni\net.d', 'C:\var\log\containerd' | Out-Null
Invoke-Checked -Program "$env:SystemRoot\System32\tar.exe" -Arguments @('-xf', 'C:\k\image\containerd.tar.gz', '--strip-components', '1', '-C', "`"$directory`"")
Copy-Item -Path "$PSScriptRoot\containerd.toml" -Destination "$directory\config.toml" -Force
$settings = Get-Content -Path "$directory\config.toml" -Raw
Set-Content -Path "$directory\config.toml" -Value $settings.Replace('@PAUSE_IMAGE@', $env:PAUSE_IMAGE) -Encoding ascii
Invoke-Checked -Program "$directory\containerd.exe" -Arguments @('--register-service', '--config', "`"$directory\config.toml`"", '--log-file', 'C:\var\log\containerd\containerd.log')
Set-Service -Name 'containerd' -StartupType Automatic
# if Defender is not installed, its command may be missing as well
if (Get-Process -Name 'MsMpEng' -ErrorAction SilentlyContinue) { Add-MpPreference -ExclusionPath $directory -ExclusionProcess "$directory\containerd.exe" }
Start-Service -Name 'containerd'
