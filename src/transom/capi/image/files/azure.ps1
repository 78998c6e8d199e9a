# Azure's wire server is for SYSTEM alone, not for pods (CVE-2021-27075): agent and cloudbase-init run as SYSTEM.
. "$PSScriptRoot\common.ps1"
New-NetFirewallRule -Name 'wire-server' -DisplayName 'Wire server for SYSTEM alone' -Direction Outbound -RemoteAddress '168.63.129.16' -RemotePort 80 -Protocol TCP -Action Block | Out-Null
# what the rule blocks: everyone (A), without SYSTEM (D)
Get-NetFirewallRule -Name 'wire-server' | Get-NetFirewallSecurityFilter | Set-NetFirewallSecurityFilter -LocalUser 'O:LSD:(D;;CC;;;S-1-5-18)(A;;CC;;;S-1-1-0)'
# sysprep leaves it with a password that must be changed, and Azure's first boot would wait for that
Disable-LocalUser -Name 'Administrator' -ErrorAction SilentlyContinue
# the agents must be there before the machine is generalised
foreach ($name in 'RdAgent', 'WindowsAzureGuestAgent') {
    (Get-Service -Name $name).WaitForStatus('Running', [TimeSpan]::FromMinutes(10))
}
