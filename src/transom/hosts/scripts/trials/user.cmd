copy /y /b "%HERE%\try.cmd" "%OWN%\open\try.cmd" >nul
mkdir "%OWN%\said"
"%ICACLS%" "%OWN%\said" /grant *S-1-5-32-545:(OI)(CI)M >nul 2>nul
echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "$ErrorActionPreference = 'Stop'; $password = [guid]::NewGuid().ToString() + 'aB1'; $user = New-LocalUser -Name 'TransomVerify' -Password (ConvertTo-SecureString -String $password -AsPlainText -Force); Add-LocalGroupMember -SID 'S-1-5-32-545' -Member $user; Add-LocalGroupMember -SID 'S-1-5-32-559' -Member $user; $action = New-ScheduledTaskAction -Execute 'C:\Windows\System32\cmd.exe' -Argument '/d /c C:\TransomVerify\open\try.cmd'; Register-ScheduledTask -TaskName 'TransomVerifyUser' -Action $action -User ($env:COMPUTERNAME + '\TransomVerify') -Password $password | Out-Null" >nul 2>nul
if errorlevel 1 goto refused
"%SCHTASKS%" /run /tn TransomVerifyUser >nul 2>nul
set "TRIES=0"
:wait
if exist "%OWN%\said\done.txt" goto tried
set /a TRIES+=1
echo waiting 1>&2
if %TRIES% GTR 20 goto refused
"%PING%" -n 2 127.0.0.1 >nul
goto wait
:tried
type "%OWN%\said\said.txt"
exit /b 0
:refused
echo not-to-be-had
