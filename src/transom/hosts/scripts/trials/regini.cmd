"%REG%" add "@KEY@\Regini" /v Secret /t REG_SZ /d closed /f /reg:64 >nul 2>nul
"%SystemRoot%\System32\regini.exe" "%HERE%\regini.txt" >nul 2>nul
if errorlevel 1 echo refused
echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "if ((Get-Acl -LiteralPath 'HKLM:\SOFTWARE\TransomVerify\Regini').Sddl -notmatch 'D:[A-Z]*(\(A;[A-Z]*;KA;;;(SY|BA)\))+$') { exit 1 }" >nul 2>nul
if errorlevel 1 echo open
if not errorlevel 1 echo closed
"%REG%" delete "@KEY@\Regini" /f /reg:64 >nul 2>nul
