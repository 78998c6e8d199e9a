# Installs OpenSSH, so that Transom can update proxy and CAs later; only keys, no passwords.
. "$PSScriptRoot\common.ps1"
Get-CheckedFile -Uri $env:SSH_SOURCE_URL -Hash $env:SSH_SHA256 -Signer $env:OPENSSH_SIGNER -Path 'C:\k\image\openssh.msi'
Invoke-Checked -Program "$env:SystemRoot\System32\msiexec.exe" -Arguments @('/i', 'C:\k\image\openssh.msi', '/qn', '/norestart') -Good @(0, 3010)
Set-Service -Name 'sshd' -StartupType Automatic
Stop-Service -Name 'sshd'
$directory = "$env:ProgramData\ssh"
New-Item -ItemType Directory -Force -Path $directory | Out-Null
# only they can write what sshd reads there: sshd creates the directory in the same way
Invoke-Checked -Program "$env:SystemRoot\System32\icacls.exe" -Arguments @($directory, '/inheritance:r', '/grant:r', '*S-1-5-18:(OI)(CI)F', '*S-1-5-32-544:(OI)(CI)F', '*S-1-5-11:(OI)(CI)RX')
# created before sshd starts for the first time: sshd copies its default, with a block for administrators, only if none exists
Copy-Item -Path "$PSScriptRoot\sshd_config" -Destination "$directory\sshd_config" -Force
# a key of the build would be the key of every machine
Remove-Item -Path "$directory\ssh_host_*"
New-NetFirewallRule -Name 'sshd' -DisplayName 'OpenSSH server' -Direction Inbound -Protocol TCP -LocalPort 22 -Action Allow | Out-Null
