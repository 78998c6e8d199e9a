# Prints the source address that kube-proxy uses for Services: the address of its own HNS endpoint, which is attached to the
# host. Windows has no cmdlet that creates an endpoint (Microsoft Learn, module HostNetworkingService: only Get- and Remove-), so
# the script calls HNS as its own clients do: HNSCall of vmcompute.dll (microsoft/hcsshim, internal/hns/hns.go and hnsendpoint.go).
$ErrorActionPreference = 'Stop'
$network = Get-HnsNetwork | Where-Object { $_.Name -eq 'OVNKubernetesHybridOverlayNetwork' } | Select-Object -First 1
if (-not $network) { exit 0 }
if ($ExecutionContext.SessionState.LanguageMode -ne 'FullLanguage') {
    $mode = $ExecutionContext.SessionState.LanguageMode
    throw "PowerShell runs in $mode (a policy of AppLocker or WDAC), where no script can call HNS: have the policy allow this one"
}
$call = @'
[DllImport("vmcompute.dll")]
public static extern int HNSCall(
    [MarshalAs(UnmanagedType.LPWStr)] string method,
    [MarshalAs(UnmanagedType.LPWStr)] string path,
    [MarshalAs(UnmanagedType.LPWStr)] string request,
    [MarshalAs(UnmanagedType.LPWStr)] out string response);
'@
$hns = Add-Type -MemberDefinition $call -Namespace 'Transom' -Name 'Hns' -PassThru

function Request($method, $path, $body) {
    $response = ''
    $code = $hns::HNSCall($method, $path, $body, [ref] $response)
    if ($code -ne 0) { throw ('HNS refuses {0} {1}: 0x{2:x8}' -f $method, $path, $code) }
    $answer = ConvertFrom-Json -InputObject $response
    if (-not $answer.Success) { throw "HNS refuses $method ${path}: $($answer.Error)" }
    $answer.Output
}

$name = 'VIPEndpoint'
$endpoint = Get-HnsEndpoint | Where-Object { $_.Name -eq $name -and $_.VirtualNetwork -eq $network.Id } | Select-Object -First 1
if (-not $endpoint) {
    $wanted = ConvertTo-Json -InputObject @{ VirtualNetwork = $network.Id; Name = $name; Policies = @() }
    $endpoint = Request 'POST' '/endpoints' $wanted
}
# 2: attached, 3: attached and shared (hcsshim, EndpointState); a script that was ended between the two continues here
if ($endpoint.State -ne 2 -and $endpoint.State -ne 3) {
    $attach = ConvertTo-Json -InputObject @{ SystemType = 'Host'; CompartmentId = 1 }
    Request 'POST' "/endpoints/$($endpoint.Id)/attach" $attach | Out-Null
}
# the address is on the host's adapter to which the endpoint is attached, a moment after it was attached
for ($try = 1; $try -le 20; $try++) {
    $mac = $endpoint.MacAddress
    $adapter = Get-NetIPConfiguration -AllCompartments -All -Detailed | Where-Object { $_.NetAdapter.LinkLayerAddress -eq $mac }
    $address = $adapter.IPv4Address.IPAddress | Select-Object -First 1
    if ($address) {
        $address
        exit 0
    }
    Start-Sleep -Seconds 1
}
throw "the endpoint $name ($($endpoint.MacAddress)) has no adapter on this host with an IPv4 address after 20 s"
