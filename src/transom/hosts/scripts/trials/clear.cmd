call :delete
"%SCHTASKS%" /delete /tn TransomVerify /f >nul 2>nul
"%SCHTASKS%" /delete /tn TransomVerifyUser /f >nul 2>nul
"%NETSH%" advfirewall firewall delete rule name="TransomVerify" >nul 2>nul
echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "$ErrorActionPreference = 'Stop'; $user = Get-LocalUser -Name 'TransomVerify' -ErrorAction SilentlyContinue; if ($user) { Get-CimInstance -ClassName Win32_UserProfile | Where-Object { $_.SID -eq $user.SID.Value } | Remove-CimInstance; Remove-LocalUser -SID $user.SID }" >nul 2>nul
if errorlevel 1 echo remains user TransomVerify
"%REG%" query "@KEY@" /v Certificate /reg:64 >certificate.txt 2>nul
for /f "usebackq tokens=1-3" %%a in (certificate.txt) do if "%%a"=="Certificate" "%REG%" delete "@STORE@\%%c" /f /reg:64 >nul 2>nul
"%REG%" delete "@KEY@" /f /reg:64 >nul 2>nul
"%FIND%" "@MARK@" "@PROFILE@" >nul 2>nul
if not errorlevel 1 del "@PROFILE@" 2>nul
rmdir /s /q "%OWN%" 2>nul
rmdir C:\Windows\TransomVerify 2>nul
if exist "%OWN%" echo remains %OWN%
"%REG%" query "@KEY@" /reg:64 >nul 2>nul
if not errorlevel 1 echo remains @KEY@
"%SC%" query TransomVerify >nul 2>nul
if not errorlevel 1 echo remains service TransomVerify
"%FIND%" "@MARK@" "@PROFILE@" >nul 2>nul
if not errorlevel 1 echo remains @PROFILE@
echo cleared
exit /b 0
:delete
set "TRIES=0"
:again
"%SC%" delete TransomVerify >nul 2>nul
"%SC%" query TransomVerify >nul 2>nul
if errorlevel 1 exit /b 0
set /a TRIES+=1
echo waiting 1>&2
if %TRIES% GTR 30 exit /b 0
"%PING%" -n 2 127.0.0.1 >nul
goto again
