rem Only SYSTEM and Administrators can read the ledger and the keys below it, before its first value is written.
rem If .NET is not available (Constrained Language Mode): regini, 1 Administrators, 17 SYSTEM, for each key.
:close
set "OPEN="
"%REG%" add "@LEDGER@" /f /reg:64 >nul 2>nul
rem Wine's reg gives a new key a default value, which does not belong to the ledger.
"%REG%" delete "@LEDGER@" /ve /f /reg:64 >nul 2>nul
echo closing 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "$ErrorActionPreference = 'Stop'; $acl = New-Object -TypeName Security.AccessControl.RegistrySecurity; $acl.SetSecurityDescriptorSddlForm('D:P(A;CI;KA;;;SY)(A;CI;KA;;;BA)', 'Access'); Set-Acl -LiteralPath 'HKLM:\SOFTWARE\Transom' -AclObject $acl" >nul 2>nul
if errorlevel 1 "%SystemRoot%\System32\regini.exe" "%HERE%\close.txt" >nul 2>nul
echo closing 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "if ((Get-Acl -LiteralPath 'HKLM:\SOFTWARE\Transom').Sddl -notmatch 'D:[A-Z]*(\(A;[A-Z]*;KA;;;(SY|BA)\))+$') { exit 1 }" >nul 2>nul
if errorlevel 1 set "OPEN=1"
exit /b 0

:unclosed
del "%HERE%\*.reg" 2>nul
>>"%RESULT%" echo @ResultWord.UNCLOSED@
exit /b 0
