# Only SYSTEM can reach Azure's wire server, pods cannot (CVE-2021-27075): agent and cloudbase-init run as SYSTEM.
. "$PSScriptRoot\common.ps1"
New-NetFirewallRule -Name 'wire-server' -DisplayName 'Wire server for SYSTEM alone' -Direction Outbound -RemoteAddress '168.63.129.16' -RemotePort 80 -Protocol TCP -Action Block | Out-Null
# the rule blocks everyone (A) except SYSTEM (D)
Get-NetFirewallRule -Name 'wire-server' | Get-NetFirewallSecurityFilter | Set-NetFirewallSecurityFilter -LocalUser 'O:LSD:(D;;CC;;;S-1-5-18)(A;;CC;;;S-1-1-0)'
# sysprep leaves a password that must be changed, and the first boot on Azure would wait for the change
Disable-LocalUser -Name 'Administrator' -ErrorAction SilentlyContinue
# the agents must run before the machine is generalised
foreach ($name in 'RdAgent', 'WindowsAzureGuestAgent') {
    (Get-Service -Name $name).WaitForStatus('Running', [TimeSpan]::FromMinutes(10))
}
