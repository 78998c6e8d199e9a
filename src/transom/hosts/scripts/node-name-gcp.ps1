# Prints the name of the instance from its metadata service (Google Cloud, "Predefined metadata keys").
$ErrorActionPreference = 'Stop'
$headers = @{ 'Metadata-Flavor' = 'Google' }
$uri = 'http://metadata.google.internal/computeMetadata/v1/instance/hostname'
Invoke-RestMethod -UseBasicParsing -TimeoutSec 5 -Headers $headers -Uri $uri
