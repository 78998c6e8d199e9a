@echo off
setlocal EnableExtensions DisableDelayedExpansion
rem Sets the egress proxy and the trusted CAs of proxy.reg on this machine and restarts the services that use them.
rem Runs before kubeadm join; and after it with "after-join": restores what was removed in between, and deletes the file.
set "HERE=%~dp0"
set "REGFILE=%HERE%proxy.reg"
set "LOG=%HERE%proxy.log"
set "REG=%SystemRoot%\System32\reg.exe"
set "SC=%SystemRoot%\System32\sc.exe"
set "PING=%SystemRoot%\System32\ping.exe"
set "ICACLS=%SystemRoot%\System32\icacls.exe"
set "POWERSHELL=%SystemRoot%\System32\WindowsPowerShell\v1.0\powershell.exe"
set "LEDGER=HKLM\SOFTWARE\Transom"
set "SERVICES=HKLM\SYSTEM\CurrentControlSet\Services"
set "STORES=HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\SystemCertificates"
set "MODE=%~1"
set "FIRST="
set "LOST="
set "RESULT=0"
if not exist "%REGFILE%" goto nofile
"%ICACLS%" "%REGFILE%" /inheritance:r /grant:r *S-1-5-18:F *S-1-5-32-544:F >nul 2>nul
"%REG%" query "%LEDGER%" /v Version /reg:64 >nul 2>nul
if errorlevel 1 set "FIRST=1"
call :look containerd
call :look kubelet
if not "%RESULT%"=="0" goto leave
if defined FIRST goto import
if not defined LOST goto unchanged

:import
call :keep ROOT
call :keep CA
del "%HERE%trusted.reg" 2>nul
if not defined FIRST "%REG%" export "%LEDGER%\Certificates" "%HERE%trusted.reg" /y /reg:64 >nul 2>nul
"%REG%" query "%LEDGER%" /v Closed /reg:64 >nul 2>nul
if errorlevel 1 call :close
if not "%RESULT%"=="0" goto leave
"%REG%" import "%REGFILE%" /reg:64 >nul 2>nul
if errorlevel 1 goto notimported
call :restore ROOT
call :restore CA
if exist "%HERE%trusted.reg" "%REG%" import "%HERE%trusted.reg" /reg:64 >nul 2>nul
del "%HERE%trusted.reg" 2>nul
call :without containerd
call :without kubelet
"%REG%" query "%LEDGER%" /v Version /reg:64 >nul 2>nul
if errorlevel 1 goto nothing
>>"%LOG%" echo imported
set "RUNNING_kubelet="
set "RUNNING_containerd="
if defined FIRST set "LOST_containerd=1"
if defined FIRST set "LOST_kubelet=1"
if defined LOST_containerd set "LOST_kubelet=1"
if defined LOST_kubelet call :stop kubelet
if defined LOST_containerd call :stop containerd
if defined RUNNING_containerd call :start containerd
if defined RUNNING_kubelet call :start kubelet
goto leave

:nothing
"%REG%" delete "%LEDGER%" /f /reg:64 >nul 2>nul
>>"%LOG%" echo proxy.reg sets nothing
goto leave
:unchanged
>>"%LOG%" echo nothing to put back
goto leave
:notimported
>>"%LOG%" echo proxy.reg could not be imported: this must run as SYSTEM or as an administrator
set "RESULT=1"
goto leave
:nofile
if "%MODE%"=="after-join" exit /b 0
>>"%LOG%" echo proxy.reg is not there: the Secret that holds it was not rendered into the user data
exit /b 1
:leave
if "%MODE%"=="after-join" del "%REGFILE%" 2>nul
exit /b %RESULT%

rem Only SYSTEM and Administrators can read the ledger and the keys below it, before its first value is written. regini is for
rem hosts without .NET (Constrained Language Mode): 1 Administrators, 17 SYSTEM.
:close
"%REG%" add "%LEDGER%" /f /reg:64 >nul 2>nul
rem Wine gives a new key a default value, which does not belong to the ledger.
"%REG%" delete "%LEDGER%" /ve /f /reg:64 >nul 2>nul
"%POWERSHELL%" -NoProfile -NonInteractive -Command "$ErrorActionPreference = 'Stop'; $acl = New-Object -TypeName Security.AccessControl.RegistrySecurity; $acl.SetSecurityDescriptorSddlForm('D:P(A;CI;KA;;;SY)(A;CI;KA;;;BA)', 'Access'); Set-Acl -LiteralPath 'HKLM:\SOFTWARE\Transom' -AclObject $acl" >nul 2>nul
if not errorlevel 1 exit /b 0
>"%HERE%close.txt" echo \Registry\Machine\SOFTWARE\Transom [1 17]
"%SystemRoot%\System32\regini.exe" "%HERE%close.txt" >nul 2>nul
del "%HERE%close.txt" 2>nul
"%POWERSHELL%" -NoProfile -NonInteractive -Command "if ((Get-Acl -LiteralPath 'HKLM:\SOFTWARE\Transom').Sddl -notmatch 'D:[A-Z]*(\(A;[A-Z]*;KA;;;(SY|BA)\))+$') { exit 1 }" >nul 2>nul
if not errorlevel 1 exit /b 0
>>"%LOG%" echo the ledger could not be closed to ordinary users: nothing was imported
set "RESULT=1"
exit /b 0

rem %1 service: ABSENT if it does not exist, LOST if it does not have, or no longer has, the expected environment.
rem An environment from the image cannot be merged here: nothing is imported; a pass over SSH can merge it.
:look
set "ABSENT_%1="
set "LOST_%1="
"%REG%" query "%SERVICES%\%1" /v ImagePath /reg:64 >nul 2>nul
if errorlevel 1 goto absent
"%REG%" query "%SERVICES%\%1" /v Environment /reg:64 >nul 2>nul
if errorlevel 1 goto lost
if not defined FIRST exit /b 0
>>"%LOG%" echo the image sets an Environment for %1: nothing was imported; take it out of the image
set "RESULT=1"
exit /b 0
:absent
set "ABSENT_%1=1"
exit /b 0
:lost
if exist "%HERE%without-%1" goto late
"%REG%" query "%LEDGER%\Environment\Services\%1" /reg:64 >nul 2>nul
if errorlevel 1 exit /b 0
:late
del "%HERE%without-%1" 2>nul
set "LOST_%1=1"
set "LOST=1"
exit /b 0

rem %1 service: removes the remains of one that does not exist.
:without
if not defined ABSENT_%1 exit /b 0
>"%HERE%without-%1" echo %1
"%REG%" delete "%SERVICES%\%1" /f /reg:64 >nul 2>nul
"%REG%" delete "%LEDGER%\Environment\Services\%1" /f /reg:64 >nul 2>nul
exit /b 0

rem %1 store: which keys exist and what they hold before the import.
:keep
call :has %1 NEW_%1
call :has %1\Certificates EMPTY_%1
"%REG%" export "%STORES%\%1\Certificates" "%HERE%%1.reg" /y /reg:64 >nul 2>nul
"%REG%" query "%STORES%\%1\Certificates" /reg:64 >"%HERE%%1.txt" 2>nul
exit /b 0
:has
set "%2="
"%REG%" query "%STORES%\%1" /reg:64 >nul 2>nul
if errorlevel 1 set "%2=1"
exit /b 0

rem %1 store: existing certificates stay unchanged, and the ledger does not record them as added.
:restore
if defined NEW_%1 call :made %1
if defined EMPTY_%1 call :made %1\Certificates
if exist "%HERE%%1.reg" "%REG%" import "%HERE%%1.reg" /reg:64 >nul 2>nul
if defined FIRST call :mark %1
del "%HERE%%1.reg" "%HERE%%1.txt" 2>nul
exit /b 0
:mark
"%REG%" query "%LEDGER%\Certificates\%1" /reg:64 >"%HERE%ledger.txt" 2>nul
for /f "usebackq tokens=1,2" %%a in ("%HERE%ledger.txt") do if "%%b"=="REG_SZ" call :found %1 %%a
del "%HERE%ledger.txt" 2>nul
exit /b 0
:made
"%REG%" query "%STORES%\%1" /reg:64 >nul 2>nul
if errorlevel 1 exit /b 0
"%REG%" add "%LEDGER%\Keys" /v "%STORES%\%1" /t REG_SZ /f /reg:64 >nul 2>nul
exit /b 0
:found
set "THERE="
for /f "usebackq delims=" %%a in ("%HERE%%1.txt") do if /i "%%a"=="%STORES%\%1\Certificates\%2" set "THERE=1"
if not defined THERE exit /b 0
"%REG%" add "%LEDGER%\Certificates\%1" /v %2 /t REG_SZ /d "{\"added\":false}" /f /reg:64 >nul 2>nul
exit /b 0

rem STATE: the number on the third line of sc query (its words are translated); empty: the service does not exist.
:state
set "STATE="
set "LINE=0"
"%SC%" query %1 >"%HERE%state.txt" 2>nul
if not errorlevel 1 for /f "usebackq tokens=2 delims=:" %%a in ("%HERE%state.txt") do call :line %%a
del "%HERE%state.txt" 2>nul
exit /b 0
:line
set /a LINE+=1
if %LINE%==3 set "STATE=%1"
exit /b 0

rem start and stop return before the state is reached: query again while waiting.
:stop
set "TRIES=0"
call :state %1
if "%STATE%"=="" exit /b 0
if "%STATE%"=="1" exit /b 0
set "RUNNING_%1=1"
:stopping
if "%STATE%"=="4" "%SC%" stop %1 >nul 2>nul
call :state %1
if "%STATE%"=="1" exit /b 0
set /a TRIES+=1
if %TRIES% GTR 60 goto stuck
"%PING%" -n 2 127.0.0.1 >nul
goto stopping
:stuck
>>"%LOG%" echo %1 did not stop within 60 s
set "RESULT=1"
exit /b 0

:start
set "TRIES=0"
call :state %1
:starting
if "%STATE%"=="4" goto running
"%SC%" start %1 >nul 2>nul
call :state %1
if "%STATE%"=="4" goto running
set /a TRIES+=1
if %TRIES% GTR 60 goto unstarted
"%PING%" -n 2 127.0.0.1 >nul
goto starting
:running
>>"%LOG%" echo restarted %1
exit /b 0
:unstarted
>>"%LOG%" echo %1 does not run, 60 s after its start
set "RESULT=1"
exit /b 0
