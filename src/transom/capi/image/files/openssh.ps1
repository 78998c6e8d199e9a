# OpenSSH, so that Transom can keep proxy and CAs right afterwards; keys alone, no passwords.
. "$PSScriptRoot\common.ps1"
Get-CheckedFile -Uri $env:SSH_SOURCE_URL -Hash $env:SSH_SHA256 -Signer $env:OPENSSH_SIGNER -Path 'C:\k\image\openssh.msi'
Invoke-Checked -Program "$env:SystemRoot\System32\msiexec.exe" -Arguments @('/i', 'C:\k\image\openssh.msi', '/qn', '/norestart') -Good @(0, 3010)
Set-Service -Name 'sshd' -StartupType Automatic
Stop-Service -Name 'sshd'
$directory = "$env:ProgramData\ssh"
New-Item -ItemType Directory -Force -Path $directory | Out-Null
# whatever sshd reads there is nobody's but theirs: as sshd itself makes the directory
Invoke-Checked -Program "$env:SystemRoot\System32\icacls.exe" -Arguments @($directory, '/inheritance:r', '/grant:r', '*S-1-5-18:(OI)(CI)F', '*S-1-5-32-544:(OI)(CI)F', '*S-1-5-11:(OI)(CI)RX')
# there before sshd first starts: it copies its default, with a block for administrators, only where there is none
Copy-Item -Path "$PSScriptRoot\sshd_config" -Destination "$directory\sshd_config" -Force
# a key of the build would be every machine's
Remove-Item -Path "$directory\ssh_host_*"
New-NetFirewallRule -Name 'sshd' -DisplayName 'OpenSSH server' -Direction Inbound -Protocol TCP -LocalPort 22 -Action Allow | Out-Null
