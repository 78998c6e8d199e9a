# Nothing of the build stays: no proxy, no downloads, no key. Then the machine is generalised.
. "$PSScriptRoot\common.ps1"
foreach ($name in 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY') {
    if ($null -ne [Environment]::GetEnvironmentVariable($name, 'Machine')) {
        throw "$name is set in the machine's environment: proxies of the build are no proxies of the machines"
    }
}
Stop-Service -Name 'containerd'
Remove-Item -Path 'C:\k\image' -Recurse -Force
$unattend = "$env:ProgramFiles\Cloudbase Solutions\Cloudbase-Init\conf\Unattend.xml"
& "$env:SystemRoot\System32\Sysprep\Sysprep.exe" /oobe /generalize /quiet /quit "/unattend:$unattend"
