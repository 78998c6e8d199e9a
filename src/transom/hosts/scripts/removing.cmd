rem %1 directory: ends the programs that run from it, because files in use cannot be removed
:end
"%POWERSHELL%" -NoProfile -NonInteractive -Command "Get-Process | Where-Object { $_.Path -like '%~1\*' } | Stop-Process -Force" >nul 2>nul
exit /b 0

rem %1 network of the Host Networking Service, if Windows has it; this may interrupt all connections of the host for a moment
:network
"%POWERSHELL%" -NoProfile -NonInteractive -Command "$ErrorActionPreference = 'Stop'; if (Get-Command -Name Get-HnsNetwork -ErrorAction SilentlyContinue) { Get-HnsNetwork | Where-Object { $_.Name -eq '%~1' } | Remove-HnsNetwork }" >nul 2>nul
if errorlevel 1 >>"%RESULT%" echo @ResultWord.REMAINS@ HNS network %~1
set "LAUNCH=%SystemDrive%\Program Files\Amazon\EC2Launch\EC2Launch.exe"
if not exist "%LAUNCH%" exit /b 0
rem On EC2: the routes to the metadata service were removed with the network.
"%LAUNCH%" run-task add-routes --persistent >nul 2>nul
if errorlevel 1 "%LAUNCH%" run-task add-routes >nul 2>nul
exit /b 0

rem %1 directory of Transom, with files that programs wrote to it; rmdir does not follow links in it, and without /s removes none
:clear
set "TRIES=0"
:clearing
if not exist "%~1\" exit /b 0
rmdir "%~1" >nul 2>nul
rmdir /s /q "%~1" >nul 2>nul
if not exist "%~1\" exit /b 0
set /a TRIES+=1
if %TRIES% GTR 5 goto remains
"%PING%" -n 2 127.0.0.1 >nul
goto clearing
:remains
>>"%RESULT%" echo @ResultWord.REMAINS@ %~1
exit /b 0

rem %1 TCP port: removes its firewall rule
:close
"%SystemRoot%\System32\netsh.exe" advfirewall firewall delete rule name="Transom TCP %~1" >nul 2>nul
exit /b 0
