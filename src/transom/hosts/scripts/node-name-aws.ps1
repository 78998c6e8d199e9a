# Prints the private DNS name of the instance: the cloud controller manager of AWS looks for a Node of this name (kubernetes,
# cloud-provider-aws, docs/prerequisites.md). The token is version 2 of the metadata service; where that is not required, an
# error has no effect (AWS, "Use the Instance Metadata Service to access instance metadata").
$ErrorActionPreference = 'Stop'
$metadata = 'http://169.254.169.254/latest'
$headers = @{ 'X-aws-ec2-metadata-token-ttl-seconds' = '60' }
$token = ''
try {
    $token = Invoke-RestMethod -UseBasicParsing -TimeoutSec 5 -Method Put -Headers $headers -Uri "$metadata/api/token"
} catch {
    $token = ''
}
$headers = @{}
if ($token) { $headers = @{ 'X-aws-ec2-metadata-token' = $token } }
Invoke-RestMethod -UseBasicParsing -TimeoutSec 5 -Headers $headers -Uri "$metadata/meta-data/local-hostname"
