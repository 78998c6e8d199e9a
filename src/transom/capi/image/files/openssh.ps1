# OpenSSH, so that Transom can keep proxy and CAs right afterwards; keys alone, no passwords.
. "$PSScriptRoot\common.ps1"
Get-CheckedFile -Uri $env:SSH_SOURCE_URL -Hash $env:SSH_SHA256 -Path 'C:\k\image\openssh.msi'
Invoke-Checked -Program "$env:SystemRoot\System32\msiexec.exe" -Arguments @('/i', 'C:\k\image\openssh.msi', '/qn', '/norestart') -Good @(0, 3010)
Set-Service -Name 'sshd' -StartupType Automatic
Start-Service -Name 'sshd'
Stop-Service -Name 'sshd'
$settings = "$env:ProgramData\ssh\sshd_config"
$lines = @('PasswordAuthentication no') + @(Get-Content -Path $settings | Where-Object { $_ -notmatch '^\s*PasswordAuthentication\s' })
Set-Content -Path $settings -Value $lines -Encoding ascii
# a key of the build would be every machine's
Remove-Item -Path "$env:ProgramData\ssh\ssh_host_*"
New-NetFirewallRule -Name 'sshd' -DisplayName 'OpenSSH server' -Direction Inbound -Protocol TCP -LocalPort 22 -Action Allow | Out-Null
