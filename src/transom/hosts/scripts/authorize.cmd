@echo off
setlocal EnableExtensions DisableDelayedExpansion
rem Replaces the file of authorized keys, with the access list of the existing file, in one move.
set "ICACLS=%SystemRoot%\System32\icacls.exe"
set "PING=%SystemRoot%\System32\ping.exe"
set "NEW=@BASE@\@PASS@"
set "TRIES=0"
"%ICACLS%" "@KEYS@" /save "%NEW%\acl" /q >nul 2>nul
if errorlevel 1 exit /b 1
"%ICACLS%" "%NEW%" /restore "%NEW%\acl" /q >nul 2>nul
if errorlevel 1 exit /b 1
:move
move /y "%NEW%\@NAME@" "@KEYS@" >nul 2>nul
if not errorlevel 1 exit /b 0
rem The SSH server may be reading it.
set /a TRIES+=1
if %TRIES% GEQ 5 exit /b 1
"%PING%" -n 2 127.0.0.1 >nul
goto move
