"%REG%" add "@KEY@\Closed\below" /v Secret /t REG_SZ /d closed /f /reg:64 >nul 2>nul
echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "$ErrorActionPreference = 'Stop'; $acl = New-Object -TypeName Security.AccessControl.RegistrySecurity; $acl.SetSecurityDescriptorSddlForm('D:P(A;CI;KA;;;SY)(A;CI;KA;;;BA)', 'Access'); Set-Acl -LiteralPath 'HKLM:\SOFTWARE\TransomVerify\Closed' -AclObject $acl" >nul 2>nul
if errorlevel 1 echo refused
echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "if ((Get-Acl -LiteralPath 'HKLM:\SOFTWARE\TransomVerify\Closed\below').Sddl -notmatch 'D:[A-Z]*(\(A;[A-Z]*;KA;;;(SY|BA)\))+$') { exit 1 }" >nul 2>nul
if errorlevel 1 echo open
if not errorlevel 1 echo closed
