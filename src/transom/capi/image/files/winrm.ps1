# Only during the build: WinRM over TLS with a certificate that is created here.
$certificate = New-SelfSignedCertificate -CertStoreLocation 'Cert:\LocalMachine\My' -DnsName $env:COMPUTERNAME
Enable-PSRemoting -SkipNetworkProfileCheck -Force
New-Item -Path 'WSMan:\localhost\Listener' -Transport HTTPS -Address '*' -CertificateThumbPrint $certificate.Thumbprint -Force
Set-Item -Path 'WSMan:\localhost\Service\Auth\Basic' -Value $true
New-NetFirewallRule -Name 'winrm-https' -DisplayName 'WinRM over TLS' -Direction Inbound -Protocol TCP -LocalPort 5986 -Action Allow
