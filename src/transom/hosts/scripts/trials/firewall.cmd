"%NETSH%" advfirewall firewall add rule name="TransomVerify" dir=in action=allow protocol=TCP localport=1 >nul 2>nul
if not errorlevel 1 echo added
"%NETSH%" advfirewall firewall delete rule name="TransomVerify" >nul 2>nul
if not errorlevel 1 echo deleted
"%NETSH%" advfirewall firewall delete rule name="TransomVerify" >nul 2>nul
if errorlevel 1 echo gone
