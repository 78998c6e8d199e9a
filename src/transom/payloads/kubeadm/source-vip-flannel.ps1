# Prints the source address that kube-proxy uses for Services. It is in the node's own subnet. host-local, the CNI program that
# assigns addresses, records it and then assigns it to no pod (containernetworking/plugins, plugins/ipam/host-local;
# kubernetes/kubernetes#96996). Prints nothing while no such network exists.
#
# The record is a file named like the address, whose first line is the ID of its holder (backend/disk/backend.go, `Reserve`). It is
# read first: host-local refuses a second address for an ID, and a script that was ended after the first call leaves the record.
param([string] $Network = 'flannel.4096')
$ErrorActionPreference = 'Stop'
$id = 'kube-proxy'
$found = Get-HnsNetwork | Where-Object { $_.Name -eq $Network } | Select-Object -First 1
if (-not $found) { exit 0 }
$subnet = "$($found.Subnets[0].AddressPrefix)"

function Get-Block($address, $prefix) {
    $bytes = ([Net.IPAddress]$address).GetAddressBytes()
    [Array]::Reverse($bytes)
    [Math]::Floor([BitConverter]::ToUInt32($bytes, 0) / [Math]::Pow(2, 32 - $prefix))
}

$base, $prefix = $subnet.Split('/')
$notes = "C:\var\lib\cni\networks\$Network"
$files = @()
if (Test-Path -LiteralPath $notes) { $files = @(Get-ChildItem -LiteralPath $notes) }
foreach ($file in $files) {
    if ($file.Name -notmatch '^\d+\.\d+\.\d+\.\d+$') { continue }
    if ("$(Get-Content -LiteralPath $file.FullName -TotalCount 1)".Trim() -ne $id) { continue }
    if ((Get-Block $file.Name $prefix) -eq (Get-Block $base $prefix)) {
        $file.Name
        exit 0
    }
    # of a Node that was created again and has another subnet now
    Remove-Item -LiteralPath $file.FullName
}
$range = @{ subnet = $subnet }
$ipam = @{ type = 'host-local'; dataDir = '/var/lib/cni/networks'; ranges = @(, @($range)) }
$asked = ConvertTo-Json -Depth 6 -Compress -InputObject @{ cniVersion = '0.3.1'; name = $Network; ipam = $ipam }
$env:CNI_COMMAND = 'ADD'
$env:CNI_CONTAINERID = $id
$env:CNI_NETNS = 'none'
$env:CNI_IFNAME = $id
$env:CNI_PATH = 'C:\opt\cni\bin'
$answer = $asked | & 'C:\opt\cni\bin\host-local.exe'
if ($LASTEXITCODE -ne 0) { throw "host-local.exe gives no address: $answer" }
$given = ConvertFrom-Json -InputObject "$answer"
$given.ips[0].address.Split('/')[0]
